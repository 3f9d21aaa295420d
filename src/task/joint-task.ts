import { type Later, type Skip, toMs } from '../engine/internal.js'
import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Cost } from '../store/internal.js'
import type { DeclaredTask, DeclareOptions } from './declare-task.js'
import type { RetryDelay } from './retry-delay.js'
import type { TaskContext } from './task-context.js'

/** Tasks that are called together, as their handler sees them. */
export interface JointContext {
  /** The id of the call. The ledger names it with each task. */
  readonly call: string
  /** The tasks, in the order of their payloads. They have no steps: a call may be repeated for some of its tasks alone. */
  readonly tasks: readonly Omit<TaskContext, 'step'>[]
  /** Aborts when the time of the call is up, all of its tasks are cancelled, or its worker stops or loses its lease. */
  readonly signal: AbortSignal
  /** Reports how much the call has spent. Its tasks share that. What one of them alone has spent, its own `used` reports. */
  used(cost: Cost): void
}

/**
 * Does the work of several tasks in one call: returns one result for each payload, in their order. An `Error` in place of a
 * result fails that task alone. The task may be part of another call: after a failure, and after a worker died.
 */
export type JointHandler<Payload, Result> = (
  payloads: readonly Payload[],
  call: JointContext,
) => JointResults<Result> | PromiseLike<JointResults<Result>>

type JointResults<Result> = readonly (Result | Later | Skip | Error)[]

/** The result of one task. */
export type JointResultOf<Returned> = Exclude<Returned, Later | Skip | Error>

/** How tasks are called together. @inline */
export interface TogetherOptions {
  /** The most tasks of a call. */
  readonly size: number
  /** How long a task waits for others to join its call. Default 100 ms. */
  readonly within?: Duration | undefined
  /** How many calls each worker makes at once, apart from its own `concurrency`. Default 1. */
  readonly concurrency?: number | undefined
}

/** Options of `defineTask` for a handler of several tasks. @inline */
export interface JointOptions<Payload, Result, Input = Payload, Output = Result>
  extends DeclareOptions<Payload, Result, Input, Output> {
  /** Calls the handler for several tasks together. */
  readonly together: TogetherOptions
  /** Does the work. Gets the payloads, as the schema returns them, and their tasks. */
  readonly handler: JointHandler<Payload, Result>
  /** Says how long to wait after a failure, where no backoff of a policy is enough: as for tasks that are called one by one. */
  readonly retryDelay?: RetryDelay | undefined
}

/** A kind of task whose handler is called for several tasks together. */
export interface JointDefinition<Payload = unknown, Result = unknown, Input = Payload, Output = Result>
  extends DeclaredTask<Payload, Result, Input, Output> {
  /** How they are called together. */
  readonly together: Together
  /** A method, so that definitions with different payloads fit into one list. */
  handler(payloads: readonly Payload[], call: JointContext): ReturnType<JointHandler<Payload, Result>>
  /** Says how long to wait after a failure. */
  readonly retryDelay?: RetryDelay | undefined
}

/** How tasks are called together, checked. */
export interface Together {
  readonly size: number
  readonly withinMs: number
  readonly concurrency: number
}

const TOGETHER_OPTIONS: KnownOptions<TogetherOptions> = { size: '', within: '', concurrency: '' }

/** Checks how the tasks of a kind are called together. */
export function toTogether(
  { kind, policyMax }: Pick<DeclaredTask, 'kind' | 'policyMax'>,
  options: TogetherOptions,
): Together {
  checkOptions(`'together' of the task '${kind}'`, options, TOGETHER_OPTIONS)
  const { size, within = '100ms', concurrency = 1 } = options
  for (const [option, value] of Object.entries({ size, concurrency })) {
    if (Number.isInteger(value) && value >= 1) continue
    const path = `together.${option}`
    throw new OptionError(path, `'${path}' of the task '${kind}' must be a whole number, 1 or more, got ${value}.`)
  }
  if (policyMax?.timeout !== undefined) {
    const problem = `'policyMax.timeout' of the task '${kind}' lets a task set a timeout, but a call has one for all its tasks.`
    throw new OptionError('policyMax.timeout', `${problem} Leave it out, or leave out 'together'.`)
  }
  return { size, withinMs: toMs('together.within', within), concurrency }
}
