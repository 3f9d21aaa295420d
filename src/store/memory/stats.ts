import type { Lane } from '../contract/lane.js'
import type { KindStats } from '../contract/list.js'
import { StatsBook } from '../rules/stats-book.js'
import type { MemoryLane } from './lane.js'
import type { MemoryLanes } from './lanes.js'
import { goesBefore, type MemoryTask } from './task.js'

interface Counts {
  waiting: number
  dead: number
  budgeted: number
  readonly due: MemoryTask[]
}

/** The figures of all lanes, by kind and category. */
export function statsOf(
  lanes: MemoryLanes,
  tasks: Iterable<MemoryTask>,
  isHeldBack: (lane: Lane) => boolean,
  now: number,
): KindStats[] {
  const counts = countsOf(lanes, tasks, now)
  const book = new StatsBook()
  const first = new Map<string, MemoryTask>()
  for (const [lane, { waiting, dead, budgeted, due }] of counts) {
    const { kind, category, isPaused, running, heldUntil, blockedBy } = lane.toRecord(now)
    const isBlocked = blockedBy !== undefined && due.every(task => lane.letterBefore(task) !== undefined)
    const isHeld = heldUntil !== undefined || isBlocked || isHeldBack(lane)
    const allowance = lane.allowance(now)
    book.count({ kind, category, waiting, running, dead })
    if (waiting === 0) continue
    const since = sinceOf(due, allowance)
    if (due[0] !== undefined) first.set(JSON.stringify([kind, category]), due[0])
    const quota = lane.shared?.quota === undefined ? undefined : { id: lane.shared, room: lane.shared.room(now) }
    book.add({ kind, category, isPaused, isHeld, waiting, budgeted, allowance, quota }, [{ count: due.length, since }])
  }
  const costOf = ({ kind, category }: KindStats) => first.get(JSON.stringify([kind, category]))?.cost
  return book.kinds(lanes.shared(), costOf, now)
}

/** The tasks of each lane. */
function countsOf(lanes: MemoryLanes, tasks: Iterable<MemoryTask>, now: number): Map<MemoryLane, Counts> {
  const counts = new Map<MemoryLane, Counts>()
  for (const lane of lanes.all()) counts.set(lane, { waiting: 0, dead: 0, budgeted: 0, due: [] })
  for (const task of tasks) {
    const { lane, record, budget } = task
    const counted = counts.get(lane)
    if (counted === undefined) continue
    if (record.status === 'dead') counted.dead++
    if (record.status !== 'waiting') continue
    counted.waiting++
    if (record.nextAttemptAt === undefined || record.nextAttemptAt > now) continue
    if (budget !== undefined) counted.budgeted++
    else counted.due.push(task)
  }
  return counts
}

/** When the first of the tasks became due that may start. */
function sinceOf(due: MemoryTask[], allowance: number): number {
  if (due.length > allowance) due.sort((a, b) => (goesBefore(a, b) ? -1 : 1))
  let since = Infinity
  for (const { record } of due.slice(0, allowance)) since = Math.min(since, record.nextAttemptAt ?? since)
  return since
}
