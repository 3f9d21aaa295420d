import type { Codec } from '../codec/index.js'
import { KindCodec } from '../codec/internal.js'
import type { Death } from '../engine/internal.js'
import { extendPolicy, hashJson, OptionError, type Policy, type PolicyInput, policies } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Budget, SharedLimits, UniqueKey } from '../store/internal.js'
import type { SchemasUnlessJson } from './json-type.js'
import { checkMadeByStore } from './made-by-store.js'
import { type ParsedPolicyMax, type PolicyMax, toPolicyMax } from './own-policy.js'
import type { StandardSchema } from './standard-schema.js'
import { type TaskBudget, toBudget } from './task-budget.js'
import { type TaskLimits, toSharedLimits } from './task-limits.js'
import { type KindUnique, uniqueOfKind } from './task-unique.js'

/** Options of `declareTask`. @inline */
export interface DeclareOptions<Payload, Result = unknown, Input = Payload, Output = Result> {
  /** Overrides `policies.task`, field by field. */
  readonly policy?: PolicyInput | undefined
  /**
   * The fields of the policy that a call of `enqueue` may set for its own task, each with the most that it may ask for: of
   * `backoff`, the longest delay. Default: none.
   */
  readonly policyMax?: PolicyMax | undefined
  /** Limits over all its tasks together, beside those of each lane. The worker declares them to the store when it starts. */
  readonly limits?: TaskLimits | undefined
  /** Stops all its tasks while too many of them fail, or bounds their retries, on all machines. The worker declares it when it starts. */
  readonly budget?: TaskBudget | undefined
  /**
   * The task that follows when one of these dies, to tell somebody, or to undo what was done. It is enqueued in the
   * transaction of the death, with a `Death` as its payload.
   */
  readonly onDead?: DeclaredTask<unknown, unknown, Death> | undefined
  /** A key that at most one of its tasks may have within a scope, made from the payload. `unique` of a call goes before it. */
  readonly unique?: KindUnique<Input> | undefined
  /** Validates payloads, when they are enqueued and before they run: any Standard Schema. */
  readonly payload?: StandardSchema<Input, Payload> | undefined
  /** Validates results, when they are read: any Standard Schema. */
  readonly result?: StandardSchema<Result, Output> | undefined
  /**
   * Encodes everything that the store keeps of the payloads and results of its tasks, and with `encrypted()` of their errors
   * too: `encrypted()`, `compressed()`, or both as `[compressed(), encrypted(…)]`.
   */
  readonly codec?: Codec | readonly Codec[] | undefined
}

/**
 * A kind of task without its handler: all that is needed to enqueue it and to read its results.
 *
 * Where a schema transforms payloads, `Input` is the type that is enqueued and `Payload` the type that the handler gets.
 * Where a schema transforms results, `Result` is the type that the handler returns and `Output` the type that is read.
 */
export interface DeclaredTask<Payload = unknown, Result = unknown, Input = Payload, Output = Result> {
  /** Its name in the store. */
  readonly kind: string
  /** The whole policy: the one given, laid over `policies.task`. */
  readonly policy: Policy
  /** The hash under which the ledger names the policy. */
  readonly policyHash: string
  /** The most that a call may ask for in a `policy` of its own. */
  readonly policyMax: ParsedPolicyMax | undefined
  /** The limits over all its tasks together, as a store takes them. */
  readonly limits: SharedLimits | undefined
  /** The budget over all its tasks together, as a store takes it. */
  readonly budget: Budget | undefined
  /** The kind of the task that follows when one of these dies. */
  readonly onDead: string | undefined
  /** The unique key of a task with this payload, as a store takes it. */
  uniqueOf?(payload: Input): UniqueKey
  /** Validates its payloads. */
  readonly schema: StandardSchema<Input, Payload> | undefined
  /** Validates its results. */
  readonly resultSchema: StandardSchema<Result, Output> | undefined
  /** Encodes and decodes what a store keeps of its tasks. */
  readonly codec: KindCodec | undefined
  /** Never there: it is for the compiler alone. */
  readonly types?: { readonly payload: Payload; readonly result: Result; readonly output: Output } | undefined
}

export const DECLARE_OPTIONS: KnownOptions<DeclareOptions<unknown>> = {
  policy: 'object',
  policyMax: 'object',
  limits: 'object',
  budget: 'object',
  onDead: 'object',
  unique: 'object',
  payload: '',
  result: '',
  codec: 'object',
}

/**
 * Declares a kind of task apart from its handler, so that a producer can enqueue it without the handler's dependencies.
 * The types of its payload and result come from schemas, or are given: `declareTask<{ to: string }, number>('send-email')`.
 *
 * ```ts
 * // tasks.ts, for producers and workers alike
 * export const sendEmail = declareTask<{ to: string }>('send-email', { policy: { attempts: 5 } })
 *
 * // worker.ts
 * const worker = new Worker(store, { tasks: [defineTask(sendEmail, { handler: deliver })] })
 * ```
 */
export function declareTask<Payload, Result = unknown, Input = Payload, Output = Result>(
  kind: string,
  ...[options = {}]: unknown extends SchemasUnlessJson<Input, Result>
    ? [options?: DeclareOptions<Payload, Result, Input, Output>]
    : [options: DeclareOptions<Payload, Result, Input, Output> & SchemasUnlessJson<Input, Result>]
): DeclaredTask<Payload, Result, Input, Output> {
  checkOptions('declareTask()', options, DECLARE_OPTIONS)
  return declared(kind, options)
}

/** Makes a declaration of options that have been checked. */
export function declared<Payload, Result, Input, Output>(
  kind: string,
  {
    policy = {},
    policyMax,
    limits,
    budget,
    onDead,
    unique,
    payload,
    result,
    codec,
  }: DeclareOptions<Payload, Result, Input, Output>,
): DeclaredTask<Payload, Result, Input, Output> {
  if (!/^[\w.:-]{1,100}$/.test(kind)) {
    throw new OptionError('kind', `A kind of task is named with letters, digits and _.:- (at most 100), got '${kind}'.`)
  }
  const effective = extendPolicy(policies.task, policy)
  return {
    kind,
    policy: effective,
    policyHash: hashJson(effective),
    policyMax: policyMax && toPolicyMax(kind, policyMax),
    limits: limits && toSharedLimits(kind, limits),
    budget: budget && toBudget(kind, budget),
    onDead: onDead && kindAfterDeath(kind, onDead),
    ...(unique && { uniqueOf: uniqueOfKind(kind, unique) }),
    schema: payload,
    resultSchema: result,
    codec: codec && new KindCodec(kind, codec),
  }
}

/** The kind of the task that follows the death of one of this kind. */
function kindAfterDeath(kind: string, task: Pick<DeclaredTask, 'kind' | 'codec' | 'uniqueOf'>): string {
  if (typeof task.kind === 'string') {
    checkMadeByStore('onDead', task)
    return task.kind
  }
  throw new OptionError('onDead', `'onDead' of the task '${kind}' must be what declareTask() or defineTask() returns.`)
}
