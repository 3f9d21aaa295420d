import { extendPolicy, hashJson, OptionError, type Policy, type PolicyInput, policies } from '../policy/index.js'
import type { Settlement } from '../store/index.js'
import type { Work } from '../telemetry/index.js'
import type { Later, Skip } from './outcomes.js'
import type { StandardSchema } from './standard-schema.js'
import type { TaskContext } from './task-context.js'

/** What a task does. It may be called more than once for the same task: after a failure, and after a worker has died. */
export type TaskHandler<Payload, Result> = (
  payload: Payload,
  task: TaskContext,
) => Result | Later | Skip | PromiseLike<Result | Later | Skip>

/** What makes a kind of task. */
export interface TaskOptions<Payload, Result, Input = Payload> {
  /** Laid over `policies.task`, field by field. */
  readonly policy?: PolicyInput
  /** Validates payloads, when they are enqueued and before they run: any Standard Schema. */
  readonly payload?: StandardSchema<Input, Payload>
  /** What it does: gets the payload, as the schema makes it, and its task. */
  readonly handler: TaskHandler<Payload, Result>
  /**
   * @internal Takes the dead letter somewhere else than into the store, and returns where: the task then ends as skipped,
   * for that reason. Asked again until it resolves.
   */
  readonly bury?: (payload: string, settlement: Settlement) => Promise<string>
  /**
   * @internal What sinks are told of the work, where that is not simply a task by the name of its kind; which it is if this
   * throws.
   */
  readonly describe?: (payload: string) => Partial<Work>
}

/**
 * A kind of task: what is enqueued under this name is run by this handler, under this policy. Where a schema makes another
 * thing of what is enqueued, `Input` is what it takes and `Payload` what the handler gets.
 */
export interface TaskDefinition<Payload = unknown, Result = unknown, Input = Payload> {
  /** Its name in the store. */
  readonly kind: string
  /** The whole of it: what was given, laid over `policies.task`. */
  readonly policy: Policy
  /** Under which the ledger names the policy. */
  readonly policyHash: string
  /** What validates its payloads. */
  readonly schema: StandardSchema<Input, Payload> | undefined
  /** @internal */
  readonly bury: TaskOptions<Payload, Result>['bury']
  /** @internal */
  readonly describe: TaskOptions<Payload, Result>['describe']
  /** A method, so that definitions with different payloads fit into one list. */
  handler(payload: Payload, task: TaskContext): ReturnType<TaskHandler<Payload, Result>>
}

/**
 * Defines a kind of task. The type of its payload comes from the schema, or from the handler's first parameter.
 *
 * ```ts
 * const sendEmail = defineTask('send-email', {
 *   policy: { attempts: 5 },
 *   handler: async (email: { to: string }, { signal }) => deliver(email.to, signal),
 * })
 * ```
 */
export function defineTask<Payload, Result, Input = Payload>(
  kind: string,
  options: TaskOptions<Payload, Result, Input>,
): TaskDefinition<Payload, Result, Input> {
  const { policy = {}, payload, handler, bury, describe } = options
  if (typeof handler !== 'function') throw new OptionError('handler', `The task '${kind}' has no handler.`)
  if (!/^[\w.:-]{1,100}$/.test(kind)) {
    throw new OptionError('kind', `A kind of task is named with letters, digits and _.:- (at most 100), got '${kind}'.`)
  }
  const effective = extendPolicy(policies.task, policy)
  return { kind, policy: effective, policyHash: hashJson(effective), schema: payload, handler, bury, describe }
}
