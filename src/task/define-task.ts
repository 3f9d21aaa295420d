import { OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { DECLARE_OPTIONS, type DeclaredTask, type DeclareOptions, declared } from './declare-task.js'
import type { SchemaUnlessJson } from './json-payload.js'
import type { Later, Skip } from './outcomes.js'
import type { TaskContext } from './task-context.js'

/** Does the work of a task. It may be called more than once for the same task: after a failure, and after a worker died. */
export type TaskHandler<Payload, Result> = (
  payload: Payload,
  task: TaskContext,
) => Result | Later | Skip | PromiseLike<Result | Later | Skip>

/** Options of `defineTask`. */
export interface TaskOptions<Payload, Result, Input = Payload> extends DeclareOptions<Payload, Input> {
  /** Does the work. Gets the payload, as the schema returns it, and its task. */
  readonly handler: TaskHandler<Payload, Result>
}

/** A kind of task: tasks enqueued under this name are run by this handler, under this policy. */
export interface TaskDefinition<Payload = unknown, Result = unknown, Input = Payload>
  extends DeclaredTask<Payload, Result, Input> {
  /** A method, so that definitions with different payloads fit into one list. */
  handler(payload: Payload, task: TaskContext): ReturnType<TaskHandler<Payload, Result>>
}

const TASK_OPTIONS: KnownOptions<TaskOptions<unknown, unknown>> = { ...DECLARE_OPTIONS, handler: 'function' }

/**
 * Defines a kind of task. The type of its payload comes from the schema, or from the handler's first parameter.
 *
 * ```ts
 * const sendEmail = defineTask('send-email', {
 *   policy: { attempts: 5 },
 *   handler: async (email: { to: string }, { signal }) => deliver(email.to, signal),
 * })
 * ```
 *
 * With what `declareTask` returns in place of a name, it adds the handler to that.
 */
export function defineTask<Payload, Result, Input = Payload>(
  kind: string,
  options: TaskOptions<Payload, Result, Input> & SchemaUnlessJson<Input>,
): TaskDefinition<Payload, Result, Input>
export function defineTask<Payload, Result, Input>(
  task: DeclaredTask<Payload, Result, Input>,
  options: { readonly handler: TaskHandler<Payload, Result> },
): TaskDefinition<Payload, Result, Input>
export function defineTask<Payload, Result, Input>(
  kind: string | DeclaredTask<Payload, Result, Input>,
  options: TaskOptions<Payload, Result, Input>,
): TaskDefinition<Payload, Result, Input> {
  const { handler } = options
  if (typeof kind === 'object') checkOptions('defineTask() of a declared task', options, { handler: 'function' })
  else checkOptions('defineTask()', options, TASK_OPTIONS)
  const task = typeof kind === 'object' ? kind : declared<Payload, Result, Input>(kind, options)
  if (typeof handler !== 'function') throw new OptionError('handler', `The task '${task.kind}' has no handler.`)
  return { ...task, handler }
}
