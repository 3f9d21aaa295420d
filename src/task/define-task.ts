import type { Later, Skip } from '../engine/internal.js'
import { OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { DECLARE_OPTIONS, type DeclaredTask, type DeclareOptions, declared } from './declare-task.js'
import {
  type JointDefinition,
  type JointHandler,
  type JointOptions,
  type JointResultOf,
  type TogetherOptions,
  toTogether,
} from './joint-task.js'
import type { SchemasUnlessJson } from './json-type.js'
import type { RetryDelay } from './retry-delay.js'
import type { TaskContext } from './task-context.js'

/** Does the work of a task. It may be called more than once for the same task: after a failure, and after a worker died. */
export type TaskHandler<Payload, Result> = (
  payload: Payload,
  task: TaskContext,
) => Result | Later | Skip | PromiseLike<Result | Later | Skip>

/** The result of a handler that returns this type. The compiler takes a promise that never resolves for the result itself. */
type ResultOf<Returned> = Exclude<Awaited<Returned>, Later | Skip>

/** Options of `defineTask`. */
export interface TaskOptions<Payload, Result, Input = Payload, Output = Result>
  extends DeclareOptions<Payload, Result, Input, Output> {
  /** Does the work. Gets the payload, as the schema returns it, and its task. */
  readonly handler: TaskHandler<Payload, Result>
  /**
   * Says how long to wait after a failure, where no backoff of a policy is enough. `undefined` leaves it to the policy. A wait
   * that a rate limit asks for goes before it. The answer is on record with the attempt.
   */
  readonly retryDelay?: RetryDelay | undefined
  /** Calls the handler for several tasks together. It then gets their payloads, and returns a result for each. */
  readonly together?: undefined
}

/** A kind of task: tasks enqueued under this name are run by this handler, under this policy. */
export interface TaskDefinition<Payload = unknown, Result = unknown, Input = Payload, Output = Result>
  extends DeclaredTask<Payload, Result, Input, Output> {
  /** A method, so that definitions with different payloads fit into one list. */
  handler(payload: Payload, task: TaskContext): ReturnType<TaskHandler<Payload, Result>>
  /** Says how long to wait after a failure. */
  readonly retryDelay?: RetryDelay | undefined
  /** Not set: the handler is called for one task at a time. */
  readonly together?: undefined
}

/** A kind of task whose handler is called for one task, or for several together. */
export type AnyDefinition = TaskDefinition | JointDefinition

/** The options that a declared task does not have. */
const HANDLING: KnownOptions<Pick<JointOptions<unknown, unknown>, 'handler' | 'retryDelay' | 'together'>> = {
  handler: 'function',
  retryDelay: 'function',
  together: 'object',
}
const TASK_OPTIONS: KnownOptions<JointOptions<unknown, unknown>> = { ...DECLARE_OPTIONS, ...HANDLING }

/**
 * Defines a kind of task. The types of its payload and result come from schemas, or from the handler.
 *
 * ```ts
 * const sendEmail = defineTask('send-email', {
 *   policy: { attempts: 5 },
 *   handler: async (email: { to: string }, { signal }) => deliver(email.to, signal),
 * })
 * ```
 *
 * With what `declareTask` returns in place of a name, it adds the handler to that. With `together`, the handler is called
 * for several tasks at once:
 *
 * ```ts
 * const embed = defineTask('embed', {
 *   together: { size: 100, within: '200ms' },
 *   handler: async (texts: readonly string[], { signal }) => embeddings(texts, signal),
 * })
 * ```
 */
export function defineTask<Payload, Result, Input = Payload, Output = JointResultOf<Result>>(
  kind: string,
  options: JointOptions<Payload, Result, Input, Output> & SchemasUnlessJson<Input, JointResultOf<Result>>,
): JointDefinition<Payload, JointResultOf<Result>, Input, Output>
export function defineTask<Payload, Result, Input, Output>(
  task: DeclaredTask<Payload, Result, Input, Output>,
  options: {
    readonly together: TogetherOptions
    readonly handler: JointHandler<Payload, Result>
    readonly retryDelay?: RetryDelay | undefined
  },
): JointDefinition<Payload, Result, Input, Output>
export function defineTask<Payload, Result, Input = Payload, Output = ResultOf<Result>>(
  kind: string,
  options: TaskOptions<Payload, Result, Input, Output> & SchemasUnlessJson<Input, ResultOf<Result>>,
): TaskDefinition<Payload, ResultOf<Result>, Input, Output>
export function defineTask<Payload, Result, Input, Output>(
  task: DeclaredTask<Payload, Result, Input, Output>,
  options: { readonly handler: TaskHandler<Payload, Result>; readonly retryDelay?: RetryDelay | undefined },
): TaskDefinition<Payload, Result, Input, Output>
export function defineTask<Payload, Result, Input, Output>(
  kind: string | DeclaredTask<Payload, Result, Input, Output>,
  options: TaskOptions<Payload, Result, Input, Output> | JointOptions<Payload, Result, Input, Output>,
): TaskDefinition<Payload, Result, Input, Output> | JointDefinition<Payload, Result, Input, Output> {
  if (typeof kind === 'object') checkOptions('defineTask() of a declared task', options, HANDLING)
  else checkOptions('defineTask()', options, TASK_OPTIONS)
  const declaredTask = typeof kind === 'object' ? kind : declared<Payload, Result, Input, Output>(kind, options)
  const { retryDelay } = options
  const task = { ...declaredTask, ...(retryDelay !== undefined && { retryDelay }) }
  if (typeof options.handler !== 'function') throw new OptionError('handler', `The task '${task.kind}' has no handler.`)
  if (options.together === undefined) return { ...task, handler: options.handler }
  return { ...task, handler: options.handler, together: toTogether(task, options.together) }
}
