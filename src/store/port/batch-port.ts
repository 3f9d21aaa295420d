import type { BatchCount } from '../contract/batch-store.js'
import type { TaskStatus } from '../contract/task.js'

/** The primitives of batches: their members, which are found by their ids. Their records are those of the type `batch`. */
export interface BatchPort {
  /** The first member from an id on that waits or runs. */
  unfinished(batch: string, from: string): string | undefined
  /** The ids of members behind an id, in their order; with a status, only those. */
  members(batch: string, status: TaskStatus | undefined, after: string, limit: number): readonly string[]
  /** Counts the members, by rows that may agree. */
  tally(batch: string): readonly BatchCount[]
}
