import type { Duration, PolicyInput } from '../../policy/index.js'

/** One attempt at a step of a task, as its function sees it. */
export interface StepContext {
  /**
   * The task's id and the step's name, such as `signup-7/charge`: use it as the idempotency key for the service that you call.
   * It stays the same however often the step runs.
   */
  readonly key: string
  /** The number of this attempt at the step, from 1. Neither a deferral nor the death of a worker raises it. */
  readonly attempt: number
  /** Aborts when the step times out, and whenever the signal of its task does. */
  readonly signal: AbortSignal
}

/** Does the work of a step. */
export type StepWork<T> = (step: StepContext) => T | PromiseLike<T>

/** Options of a step. */
export interface StepOptions {
  /** Changes the policy of the task for this step: its attempts, delays, errors and limits. Default: that of the task. */
  readonly policy?: PolicyInput | undefined
  /** How long one attempt at the step may run. Default: as long as the attempt at its task. */
  readonly timeout?: Duration | undefined
}
