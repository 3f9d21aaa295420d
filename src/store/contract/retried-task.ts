import type { LedgerRow } from './ledger.js'

/** A row of a task's ledger, as far as it tells whether retries help. */
export interface AttemptEnd extends Pick<LedgerRow, 'outcome' | 'attempt' | 'endedAt'> {
  /** The category that the task was in: the stage of an item. Empty if there was none. */
  readonly category: string
  /** The hash of the policy that decided. Empty if none is on record. */
  readonly policy: string
  /** The code of the failure, such as `http_502`. Empty if there was none. */
  readonly code: string
}

/** A task that was retried after a failure. */
export interface RetriedTask {
  readonly id: string
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Whether it has succeeded by now. The attempt that it succeeded with may be missing from `ends`. */
  readonly hasSucceeded: boolean
  /** Its history, oldest first. */
  readonly ends: readonly AttemptEnd[]
}
