import { extendPolicy, hashJson, OptionError, type Policy, type PolicyInput, policies } from '../policy/index.js'
import type { Later, Skip } from './outcomes.js'
import type { StandardSchema } from './standard-schema.js'
import type { TaskContext } from './task-context.js'

/** Does the work of a task. It may be called more than once for the same task: after a failure, and after a worker died. */
export type TaskHandler<Payload, Result> = (
  payload: Payload,
  task: TaskContext,
) => Result | Later | Skip | PromiseLike<Result | Later | Skip>

/** Options of `defineTask`. */
export interface TaskOptions<Payload, Result, Input = Payload> {
  /** Laid over `policies.task`, field by field. */
  readonly policy?: PolicyInput
  /** Validates payloads, when they are enqueued and before they run: any Standard Schema. */
  readonly payload?: StandardSchema<Input, Payload>
  /** Does the work. Gets the payload, as the schema returns it, and its task. */
  readonly handler: TaskHandler<Payload, Result>
}

/**
 * A kind of task: tasks enqueued under this name are run by this handler, under this policy. Where a schema transforms
 * payloads, `Input` is the type that is enqueued and `Payload` the type that the handler gets.
 */
export interface TaskDefinition<Payload = unknown, Result = unknown, Input = Payload> {
  /** Its name in the store. */
  readonly kind: string
  /** The whole policy: the one given, laid over `policies.task`. */
  readonly policy: Policy
  /** The hash under which the ledger names the policy. */
  readonly policyHash: string
  /** Validates its payloads. */
  readonly schema: StandardSchema<Input, Payload> | undefined
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
  const { policy = {}, payload, handler } = options
  if (typeof handler !== 'function') throw new OptionError('handler', `The task '${kind}' has no handler.`)
  if (!/^[\w.:-]{1,100}$/.test(kind)) {
    throw new OptionError('kind', `A kind of task is named with letters, digits and _.:- (at most 100), got '${kind}'.`)
  }
  const effective = extendPolicy(policies.task, policy)
  return { kind, policy: effective, policyHash: hashJson(effective), schema: payload, handler }
}
