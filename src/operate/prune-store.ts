import type { Retention, Store } from '../store/index.js'
import { contractOf } from '../store/internal.js'

/** Options of a prune. */
export interface PruneOptions {
  /** Stops it after the current batch. Call it again to continue with the rest. */
  readonly signal?: AbortSignal
  /** Called after each batch with the number deleted so far. */
  readonly onProgress?: (deleted: number) => void
}

/** The result of a prune. */
export interface Pruned {
  /** The number of tasks, idempotency keys and audit records that were deleted. */
  readonly deleted: number
  /** Whether the signal stopped it. Call it again to continue with the rest. */
  readonly isStopped: boolean
}

/** The size of a transaction. */
const BATCH = 500

/** Deletes all ended work that is older than its retention, batch by batch. A worker with a `retention` does it by itself. */
export async function pruneStore(
  store: Store,
  keep: Retention,
  { signal, onProgress }: PruneOptions = {},
): Promise<Pruned> {
  const contract = contractOf(store)
  let deleted = 0
  while (!signal?.aborted) {
    const count = await contract.prune(keep, BATCH)
    deleted += count
    onProgress?.(deleted)
    if (count < BATCH) return { deleted, isStopped: false }
  }
  return { deleted, isStopped: true }
}
