import type { Lane } from '../lane.js'
import type { KindStats } from '../list.js'
import { StatsBook } from '../stats-book.js'
import type { MemoryLane } from './lane.js'
import type { MemoryTask } from './task.js'

/** The figures of all lanes, by kind and category. */
export function statsOf(
  lanes: Iterable<MemoryLane>,
  tasks: Iterable<MemoryTask>,
  isGated: (lane: Lane) => boolean,
  now: number,
): KindStats[] {
  const counts = new Map<
    MemoryLane,
    { waiting: number; dead: number; budgeted: number; ready: number; since: number }
  >()
  for (const lane of lanes) counts.set(lane, { waiting: 0, dead: 0, budgeted: 0, ready: 0, since: Infinity })
  for (const { lane, record, budget } of tasks) {
    const counted = counts.get(lane)
    if (counted === undefined) continue
    if (record.status === 'dead') counted.dead++
    if (record.status !== 'waiting') continue
    counted.waiting++
    if (record.nextAttemptAt === undefined || record.nextAttemptAt > now) continue
    if (budget !== undefined) {
      counted.budgeted++
      continue
    }
    counted.ready++
    counted.since = Math.min(counted.since, record.nextAttemptAt)
  }
  const book = new StatsBook()
  for (const [lane, { waiting, dead, budgeted, ready, since }] of counts) {
    const { kind, category, isPaused, running, heldUntil } = lane.toRecord(now)
    const isHeld = heldUntil !== undefined || isGated(lane)
    book.add({ kind, category, isPaused, isHeld, waiting, budgeted, running, dead }, [{ count: ready, since }])
  }
  return book.kinds
}
