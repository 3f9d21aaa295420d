import type { Retention } from './store.js'

/** The number of rows that `prune` would delete by now, for what is named in the retention. */
export interface Prunable {
  /** Tasks that succeeded, were skipped or were cancelled. */
  readonly tasks: number
  /** Dead letters. */
  readonly deadLetters: number
  /** Runs of pipelines. */
  readonly runs: number
  /** The items of these runs, whatever became of them. */
  readonly items: number
  /** Idempotency keys. */
  readonly keys: number
  /** Audit records, and operations that are over. */
  readonly records: number
}

/** Counts what could be pruned. */
export interface PrunableReader {
  /** How much `prune` would delete by now. Reads all of it, so it is for people. */
  prunable(keep: Retention): Promise<Prunable>
}
