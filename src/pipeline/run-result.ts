import type { BudgetStop, ItemCounts, RunRecord, RunStatus } from '../store/internal.js'
import { FailureBudgetExceededError, RunInterruptedError, RunNotCompletedError } from './errors.js'

/** How a run ended, or why it does not go on. */
export class RunResult {
  /** The id of the run. */
  readonly run: string
  /** The name of the pipeline. */
  readonly pipeline: string
  /**
   * `completed`, `partial_success` or `failed` by its success rate; `cancelled`; `stopped` by its failure budget;
   * `interrupted` if the source was not read to its end. A run that was stopped or interrupted can be resumed.
   */
  readonly status: RunStatus
  /** Its items by status. */
  readonly counts: ItemCounts
  /** The number of items taken from the source, without duplicates. */
  readonly total: number
  /** Its items by stage and status. */
  readonly byStage: RunRecord['byStage']
  /** Items whose id was taken already. */
  readonly duplicates: number
  /** The number of items read from the source: where it stopped, if it threw. */
  readonly position: number
  /** (succeeded + skipped) ÷ (succeeded + skipped + dead); 1 if there were none. */
  readonly successRate: number
  /** From its opening to its end, or until now, over all processes. */
  readonly durationMs: number
  /** The figures at which the failure budget stopped it. */
  readonly stop: BudgetStop | undefined
  /** Why the source could not be read on. */
  readonly sourceError: string | undefined
  /** The commonest failure among the dead items, if it has failed. */
  readonly #failure: BudgetStop['cause']
  readonly #cause: unknown

  /** `cause` is the error of the source, in the process that read it. */
  constructor(record: RunRecord, now: number, cause?: unknown) {
    const { id, pipeline, status, counts, byStage, duplicates, position, stop, sourceError } = record
    this.run = id
    this.pipeline = pipeline
    this.status = status
    this.counts = counts
    this.total = Object.values(counts).reduce((sum, count) => sum + count, 0)
    this.byStage = byStage
    this.duplicates = duplicates
    this.position = position
    this.successRate = successRate(counts)
    this.durationMs = (record.endedAt ?? now) - record.createdAt
    this.stop = stop
    this.sourceError = sourceError
    this.#failure = record.cause
    this.#cause = cause
  }

  /** The error that says why it is neither `completed` nor a `partial_success`; `undefined` if it is. */
  get error(): FailureBudgetExceededError | RunInterruptedError | RunNotCompletedError | undefined {
    switch (this.status) {
      case 'completed':
      case 'partial_success':
        return undefined
      case 'stopped':
        return this.stop && new FailureBudgetExceededError(this.run, this.stop)
      case 'interrupted':
        return new RunInterruptedError(this.run, this.position, this.sourceError, { cause: this.#cause })
      default:
        return new RunNotCompletedError(this.run, this.status, this.successRate, this.#failure)
    }
  }

  /** Returns the result itself, or throws its `error`. */
  orThrow(): this {
    const { error } = this
    if (error !== undefined) throw error
    return this
  }
}

/** The share of items that did not fail, of those that have ended; 1 if none has. Skipped items did not fail. */
export function successRate({ succeeded, skipped, dead }: ItemCounts): number {
  const processed = succeeded + skipped + dead
  return processed === 0 ? 1 : (succeeded + skipped) / processed
}
