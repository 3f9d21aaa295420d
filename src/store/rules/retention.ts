import { OptionError } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'
import type { EndedStatus, Retention } from '../contract/store.js'

/** In the order in which they are pruned. */
export const ENDED_STATUSES: readonly EndedStatus[] = ['succeeded', 'skipped', 'cancelled', 'dead']

/** How long tasks that ended in a status are kept; `undefined` for ever. */
export function keptMs(keep: Retention, status: EndedStatus): number | undefined {
  return status === 'dead' ? keep.deadMs : (keep[`${status}Ms`] ?? keep.endedMs)
}

/** How many of the oldest tasks that ended in a status are too many. PostgreSQL has it in `prune_oldest`. */
export function surplus(keep: Retention, status: EndedStatus, total: number): number {
  return Math.max(0, total - (keep.counts?.[status] ?? Infinity))
}

/** The tasks of a status that a prune would delete: those whose time is over are the oldest. */
export function prunableTasks(
  keep: Retention,
  status: EndedStatus,
  tasks: { readonly over: number; readonly deletable: number; readonly total: number },
): number {
  return Math.max(tasks.over, Math.min(tasks.deletable, surplus(keep, status, tasks.total)))
}

export function checkCounts(counts: Retention['counts'] = {}): void {
  for (const [status, count] of Object.entries(counts)) {
    if (!ENDED_STATUSES.some(known => known === status))
      throw new OptionError('counts', `'counts' takes ${ENDED_STATUSES.join(', ')}, got ${quoted(status)}.`)
    if (count === undefined || (Number.isSafeInteger(count) && count >= 0)) continue
    throw new OptionError('counts', `'counts.${status}' must be a whole number, 0 or more, got ${quoted(count)}.`)
  }
}
