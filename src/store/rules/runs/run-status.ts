import type { ItemCounts, RunSettings } from '../../contract/run-store.js'

/** The status of a run that has ended by itself. */
export type EndStatus = 'completed' | 'partial_success' | 'failed'

/**
 * The status that a run ends with: by the share of items that succeeded or were skipped, of all that were not cancelled.
 * An empty run is completed.
 *
 * ```ts
 * runStatus({ succeeded: 90, skipped: 3, dead: 7 }, { completedFrom: 0.95, partialFrom: 0.5 }) // 'partial_success'
 * ```
 */
export function runStatus(
  { succeeded, skipped, dead }: Pick<ItemCounts, 'succeeded' | 'skipped' | 'dead'>,
  { completedFrom, partialFrom }: Pick<RunSettings, 'completedFrom' | 'partialFrom'>,
): EndStatus {
  const good = succeeded + skipped
  const rate = good + dead === 0 ? 1 : good / (good + dead)
  if (rate >= completedFrom) return 'completed'
  return rate >= partialFrom ? 'partial_success' : 'failed'
}
