import { extendPolicy, hashJson, OptionError, type Policy, type PolicyInput, policies } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { SchemaUnlessJson } from './json-payload.js'
import type { StandardSchema } from './standard-schema.js'

/** Options of `declareTask`. */
export interface DeclareOptions<Payload, Input = Payload> {
  /** Laid over `policies.task`, field by field. */
  readonly policy?: PolicyInput | undefined
  /** Validates payloads, when they are enqueued and before they run: any Standard Schema. */
  readonly payload?: StandardSchema<Input, Payload> | undefined
}

/**
 * A kind of task without its handler: all that is needed to enqueue it. Where a schema transforms payloads, `Input` is the
 * type that is enqueued and `Payload` the type that the handler gets.
 */
export interface DeclaredTask<Payload = unknown, Result = unknown, Input = Payload> {
  /** Its name in the store. */
  readonly kind: string
  /** The whole policy: the one given, laid over `policies.task`. */
  readonly policy: Policy
  /** The hash under which the ledger names the policy. */
  readonly policyHash: string
  /** Validates its payloads. */
  readonly schema: StandardSchema<Input, Payload> | undefined
  /** Never there: it is for the compiler alone. */
  readonly types?: { readonly payload: Payload; readonly result: Result } | undefined
}

export const DECLARE_OPTIONS: KnownOptions<DeclareOptions<unknown>> = { policy: 'object', payload: '' }

/**
 * Declares a kind of task apart from its handler, so that a producer can enqueue it without the handler's dependencies.
 * The type of its payload comes from the schema, or is given: `declareTask<{ to: string }>('send-email')`.
 *
 * ```ts
 * // tasks.ts, for producers and workers alike
 * export const sendEmail = declareTask<{ to: string }>('send-email', { policy: { attempts: 5 } })
 *
 * // worker.ts
 * const worker = new Worker(store, { tasks: [defineTask(sendEmail, { handler: deliver })] })
 * ```
 */
export function declareTask<Payload, Result = unknown, Input = Payload>(
  kind: string,
  ...[options = {}]: unknown extends SchemaUnlessJson<Input>
    ? [options?: DeclareOptions<Payload, Input>]
    : [options: DeclareOptions<Payload, Input> & SchemaUnlessJson<Input>]
): DeclaredTask<Payload, Result, Input> {
  checkOptions('declareTask()', options, DECLARE_OPTIONS)
  return declared(kind, options)
}

/** Makes a declaration of options that have been checked. */
export function declared<Payload, Result, Input>(
  kind: string,
  { policy = {}, payload }: DeclareOptions<Payload, Input>,
): DeclaredTask<Payload, Result, Input> {
  if (!/^[\w.:-]{1,100}$/.test(kind)) {
    throw new OptionError('kind', `A kind of task is named with letters, digits and _.:- (at most 100), got '${kind}'.`)
  }
  const effective = extendPolicy(policies.task, policy)
  return { kind, policy: effective, policyHash: hashJson(effective), schema: payload }
}
