import { isOneLane } from '../lane-limits.js'
import type { By, LaneLimits, LaneSelection } from '../store.js'
import { State, statusOf } from '../task-state.js'
import { type LaneIds, laneId } from './enqueue.js'
import { LaneBook } from './lane-book.js'
import { record } from './settle.js'
import type { Statements } from './statements.js'

/** Ends waiting tasks and marks running ones. Returns those that will end or have ended. Within a transaction. */
export function cancel(statements: Statements, ids: readonly string[], now: number): string[] {
  const book = new LaneBook(statements)
  const cancelled = [...new Set(ids)].filter(id => {
    const task = statements.stand.get(id)
    if (task === undefined || task.state > State.running) return false
    if (task.state === State.running) {
      statements.requestCancel.run(task.seq)
    } else {
      statements.cancel.run(now, task.seq)
      book.move(task.lane, statusOf(task.state), 'cancelled')
    }
    return true
  })
  book.write()
  return cancelled
}

/** Gives dead tasks fresh attempts, on record. Returns those it moved. Within a transaction. */
export function redrive(statements: Statements, ids: readonly string[], { who, why }: By, now: number): string[] {
  const book = new LaneBook(statements)
  const moved = ids.filter(id => {
    const task = statements.stand.get(id)
    if (task?.state !== State.dead) return false
    const entry = { attempt: 0, startedAt: now, endedAt: now, worker: who }
    record(statements, task.seq, task.entries + 1, entry, { type: 'redriven', reason: why })
    statements.redrive.run({ seq: task.seq, now })
    book.move(task.lane, 'dead', 'waiting')
    return true
  })
  book.write()
  return moved
}

/** Pauses or resumes the lanes that match, those that come later included. Within a transaction. */
export function pause(statements: Statements, lanes: LaneSelection, isPaused: boolean): void {
  const rule = { kind: lanes.kind, category: lanes.category ?? null, key: lanes.key ?? null }
  const paused = isPaused ? 1 : 0
  // What it covers has been overruled.
  statements.dropPauseRules.run(rule)
  statements.addPauseRule.run({ ...rule, paused })
  statements.pause.run({ ...rule, paused })
}

/** Limits the lanes that match, those that come later included. Within a transaction. */
export function limit(
  statements: Statements,
  known: LaneIds,
  lanes: LaneSelection,
  { concurrency, perSecond, isOrdered }: LaneLimits,
  now: number,
): void {
  const limits = { concurrency: concurrency ?? null, per_second: perSecond ?? null, ordered: isOrdered ? 1 : 0 }
  if (isOneLane(lanes)) {
    // One lane needs no rule: it is made.
    statements.limitLane.run({ id: laneId(statements, known, lanes.kind, lanes.category, lanes.key), ...limits, now })
    return
  }
  const rule = { kind: lanes.kind, category: lanes.category ?? null, key: lanes.key ?? null }
  statements.dropLimitRules.run(rule)
  statements.addLimitRule.run({ ...rule, ...limits })
  statements.limitLanes.run({ ...rule, ...limits, now })
}
