import type { ItemCounts, RunRecord, RunStatus } from '../store/internal.js'

/** Where a run stands. */
export interface Snapshot {
  /** The id of the run. */
  readonly run: string
  /** Where it is in its life. */
  readonly status: RunStatus
  /** All items taken so far, by status. `running` includes items that a worker has taken ahead, up to twice its concurrency. */
  readonly counts: ItemCounts
  /** The number of items taken so far; of all items, once the source was read to its end. */
  readonly total: number
  /** How many of them have ended. */
  readonly ended: number
  /** Whether the source was read to its end. */
  readonly isRead: boolean
  /** Its items by stage and status. */
  readonly byStage: RunRecord['byStage']
  /** How many items ended per second, lately. */
  readonly perSecond: number
  /** The time left at that rate, once the source was read to its end. */
  readonly leftMs: number | undefined
  /** How many attempts of this process failed and are retried. */
  readonly retries: number
  /** How often a rate limit made this process wait. */
  readonly deferrals: number
}
