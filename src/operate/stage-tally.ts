import type { LedgerRow } from '../store/index.js'
import type { Cost } from '../store/internal.js'
import { DurationHistogram, type Percentiles } from './duration-histogram.js'

/** The figures of a stage. */
export interface StageReport {
  /** The name of the stage. */
  readonly stage: string
  /** Items that succeeded there, or went on to the next stage. */
  readonly passed: number
  /** Items that it skipped. */
  readonly skipped: number
  /** Items that are dead there now. */
  readonly dead: number
  /** The share of items that did not die there, of those that have left it or died. `null` before the first one. */
  readonly reliability: number | null
  /** Attempts that were made there. */
  readonly attempts: number
  /** Failed attempts that were followed by another. */
  readonly retries: number
  /** Waits that a rate limit asked for. */
  readonly deferrals: number
  /** Attempts whose worker died. */
  readonly losses: number
  /** How much its attempts took from each bucket, as `used()` said, whatever became of them. */
  readonly used: Cost
  /** How long its attempts took, in milliseconds. */
  readonly durations: Percentiles
}

/** Whether a row of the ledger is an attempt that got its item through a stage. */
export function hasSucceeded({ outcome }: LedgerRow): boolean {
  return outcome === 'succeeded' || outcome === 'advanced' || outcome === 'skipped'
}

/** Whether it is an attempt that failed and was counted: not a deferral, and not a loss. */
export function hasFailed({ outcome }: LedgerRow): boolean {
  return outcome === 'retry' || outcome === 'dead'
}

/** Adds up the history of a stage. */
export class StageTally {
  /** Items that are dead there now. */
  dead = 0
  #passed = 0
  #skipped = 0
  #attempts = 0
  #retries = 0
  #deferrals = 0
  #losses = 0
  readonly #durations = new DurationHistogram()

  add(row: LedgerRow): void {
    const { outcome, startedAt, endedAt } = row
    if (outcome === 'lost') this.#losses++
    if (outcome === 'lost' || row.attempt === 0) return
    this.#durations.add(endedAt - startedAt)
    if (outcome === 'succeeded' || outcome === 'advanced') this.#passed++
    if (outcome === 'skipped') this.#skipped++
    if (outcome === 'retry') this.#retries++
    if (outcome === 'deferred') this.#deferrals++
    if (hasSucceeded(row) || hasFailed(row)) this.#attempts++
  }

  report(): Omit<StageReport, 'stage' | 'used'> {
    const through = this.#passed + this.#skipped
    return {
      passed: this.#passed,
      skipped: this.#skipped,
      dead: this.dead,
      reliability: through + this.dead === 0 ? null : through / (through + this.dead),
      attempts: this.#attempts,
      retries: this.#retries,
      deferrals: this.#deferrals,
      losses: this.#losses,
      durations: this.#durations.percentiles(),
    }
  }
}
