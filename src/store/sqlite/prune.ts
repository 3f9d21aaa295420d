import type { Retention } from '../contract/store.js'
import type { TaskStatus } from '../contract/task.js'
import { HOUR_MS, hourOf } from '../rules/groups/trend.js'
import { COOLED_MS, LANES_AT_ONCE, laneWindow } from '../rules/idle-lanes.js'
import { ENDED_STATUSES, keptMs, surplus } from '../rules/retention.js'
import { isAtRest } from '../rules/shared-limit.js'
import { State, type StateNumber, statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import { parsedShared } from './shared-book.js'
import type { Statements } from './statements.js'

/** Deletes ended work that is older than its retention, up to a limit. Returns how much. Within a transaction. */
export function prune(statements: Statements, keep: Retention, limit: number, now: number): number {
  const { deadMs, keysMs, auditMs } = keep
  const book = new LaneBook(statements)
  let left = limit
  for (const status of ENDED_STATUSES) {
    const ms = keptMs(keep, status)
    if (ms !== undefined) left -= pruneTasks(statements, book, State[status], now - ms, left, now)
  }
  book.write()
  left -= pruneSurplus(statements, keep, left, now)
  pruneGroups(statements, deadMs, now)
  statements.forgetUnique.run(now)
  pruneLanes(statements, now)
  pruneQuotas(statements, now)
  if (auditMs !== undefined) statements.forgetCosts.run(hourOf(now - auditMs))
  if (keysMs !== undefined) left -= statements.forgetKeys.run(now - keysMs, left).changes
  if (auditMs !== undefined) left -= statements.forgetAudit.run(now - auditMs, left).changes
  return limit - left
}

/** Deletes the oldest tasks of which there are too many. */
function pruneSurplus(statements: Statements, keep: Retention, limit: number, now: number): number {
  const totals = keep.counts === undefined ? undefined : statements.endedTotals.get()
  if (totals === undefined) return 0
  const book = new LaneBook(statements)
  let left = limit
  for (const status of ENDED_STATUSES) {
    const surplusTasks = Math.min(left, surplus(keep, status, totals[status] ?? 0))
    if (surplusTasks > 0)
      left -= pruneTasks(statements, book, State[status], Number.MAX_SAFE_INTEGER, surplusTasks, now)
  }
  book.write()
  return limit - left
}

/** Forgets idle lanes. */
function pruneLanes(statements: Statements, now: number): void {
  const [first, last] = statements.laneRange.get() ?? [null, null]
  if (first === null || last === null) return
  const after = laneWindow(first, last)
  statements.forgetLanes.run({ after, last, limit: LANES_AT_ONCE, now, cooled: now - COOLED_MS })
}

/** Forgets quotas that no lane is under. */
function pruneQuotas(statements: Statements, now: number): void {
  const [first, last] = statements.quotaRange.get() ?? [null, null]
  if (first === null || last === null) return
  for (const { id, ...row } of statements.unusedQuotas.all(laneWindow(first, last), LANES_AT_ONCE)) {
    const { limits, state } = parsedShared(row)
    if (isAtRest(limits, state, now)) statements.forgetQuota.run(id)
  }
}

/** The figures of a group by hour are kept this long, and added up then. */
const KEEP_HOURS_MS = 7 * 24 * HOUR_MS

function pruneGroups(statements: Statements, deadMs: number | undefined, now: number): void {
  statements.addUpHours.run(now - KEEP_HOURS_MS)
  statements.forgetHours.run(now - KEEP_HOURS_MS)
  for (const group of deadMs === undefined ? [] : statements.idleGroups.all(now - deadMs)) {
    statements.forgetFigures.run(group)
    statements.forgetGroup.run(group)
  }
}

function pruneTasks(
  statements: Statements,
  book: LaneBook,
  state: StateNumber,
  before: number,
  limit: number,
  now: number,
): number {
  const tasks = statements.endedBefore.all(state, before, limit)
  for (const task of tasks) forgetTask(statements, book, task, statusOf(state), now)
  return tasks.length
}

/** A task that has ended, as far as its deletion needs it. */
interface EndedRow {
  readonly seq: number
  readonly lane: number
  readonly failure_group: string | null
  readonly has_steps: number
}

/** Deletes a task that has ended, with its ledger and its steps. */
export function forgetTask(
  statements: Statements,
  book: LaneBook,
  { seq, lane, failure_group, has_steps }: EndedRow,
  status: TaskStatus,
  now: number,
): void {
  statements.forgetLedger.run(seq)
  if (has_steps) statements.dropSteps.run(seq)
  statements.forgetTask.run(seq)
  book.move(lane, status, undefined)
  book.groups.leave(failure_group, status, now)
}
