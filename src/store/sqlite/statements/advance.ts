import type { Preparer } from '../driver.js'
import { type Held, IS_HELD } from './held.js'
import { firstLetter } from './letters.js'

/** The place of a waiting task in its lane. */
export interface OrderRow {
  readonly priority: number
  readonly submitted_at: number
  readonly id: string
}

/** The item enters its next stage: fresh counters, and a claim derived from the one before. */
const NEXT_STAGE = /* sql */ `
  lane = ?, value = ?, cost = ?, claim = ?, changed_at = ?, started_at = ?, attempts = 0, deferrals = 0, losses = 0,
  undecided = 0, previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL`

const IS_TO_ADVANCE = /* sql */ `${IS_HELD} AND cancel_requested = 0 AND failure_group IS NULL`

/** Moves items to their next stage. */
export function advanceStatements(db: Preparer) {
  return {
    advanceKept: db.prepare(/* sql */ `
      UPDATE task
      SET ${NEXT_STAGE}, ran_from = ?, entries = entries + ?
      WHERE ${IS_TO_ADVANCE}`),
    advanceWaiting: db.prepare(/* sql */ `
      UPDATE task
      SET ${NEXT_STAGE}, next_at = ?, entries = entries + ?, state = 1, worker = NULL
      WHERE ${IS_TO_ADVANCE}`),
    toAdvance: db.prepare<Held, number>(/* sql */ `SELECT ran_from FROM task WHERE ${IS_TO_ADVANCE}`).pluck(),
    /** The row of a plain attempt, after its item has advanced. */
    appendAdvance: db.prepare(/* sql */ `
      INSERT INTO ledger (task, sequence, outcome, attempt, started_at, ended_at, worker, version, call, release, category)
      VALUES (?, (SELECT entries FROM task WHERE seq = ?), 'advanced', ?, ?, ?, ?, ?, ?, ?, ?)`),
    entries: db.prepare<[number], number>(/* sql */ `SELECT entries FROM task WHERE seq = ?`).pluck(),
    holder: db.prepare<[number, string, number, string], { state: number; ran_from: number | null }>(/* sql */ `
      SELECT state, ran_from FROM task WHERE seq = ? AND id = ? AND lane = ? AND claim = ?`),
    laneOfTask: db
      .prepare<[number, string], number>(/* sql */ `SELECT lane FROM task WHERE seq = ? AND id = ?`)
      .pluck(),
    order: db.prepare<[number], OrderRow>(/* sql */ `SELECT priority, submitted_at, id FROM task WHERE seq = ?`),
    head: db.prepare<[number], OrderRow>(/* sql */ `
      SELECT priority, submitted_at, id FROM task INDEXED BY task_ready
      WHERE state = 1 AND lane = ?
      ORDER BY priority DESC, submitted_at, id
      LIMIT 1`),
    /** The first dead letter of a lane that blocks it. */
    letter: db.prepare<{ lane: number }, string | null>(/* sql */ `SELECT ${firstLetter(':lane')}`).pluck(),
    /** Whether a task of an ordered lane goes before all others: it must run alone, or waits for its retry budget. */
    isBlocked: db
      .prepare<{ lane: number }, number>(/* sql */ `
        SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_alone WHERE state = 2 AND lane = :lane)
            OR EXISTS (SELECT 1 FROM task INDEXED BY task_budgeted_lane WHERE state = -1 AND lane = :lane)`)
      .pluck(),
  }
}
