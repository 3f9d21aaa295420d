import type { OperationTally } from '../../contract/operation-store.js'
import { ALONE_FROM_LOSSES } from '../../rules/after-settlement.js'
import { FIRST_RUN_LANE } from '../../rules/runs/items.js'
import type { Preparer } from '../driver.js'
import { STANDING_COLUMNS, type StandingRow } from './standing-row.js'

/** Where a task stands, for a cancellation. */
export interface StateRow {
  readonly seq: number
  readonly lane: number
  readonly state: number
  readonly entries: number
  readonly cancel_requested: number
  readonly operation: string | null
  readonly answered: number
  readonly failure_group: string | null
  readonly unique_key: string | null
}

/** A task that may wait, and its place. */
export interface WaitingRow {
  readonly seq: number
  readonly lane: number
  readonly state: number
  readonly entries: number
  readonly nextAttemptAt: number
  readonly priority: number
  readonly startedAt: number
  readonly attempts: number
  readonly deferrals: number
  readonly losses: number
  readonly value: string | null
}

/** A dead task to redrive. */
export interface DeadRow {
  readonly seq: number
  readonly id: string
  readonly lane: number
  readonly failure_group: string | null
}

/** The tasks to redrive, as a JSON array of their places, and the person who asks. */
export interface RedriveValues {
  readonly seqs: string
  readonly now: number
  readonly who: string
  readonly why: string | null
}

/** The part of a dead task that a redrive clears, as JSON without the fields that it does not have. */
const BEFORE = /* sql */ `
  '{"attempts":' || attempts || ',"deferrals":' || deferrals || ',"startedAt":' || started_at
  || ',"changedAt":' || changed_at
  || ifnull(',"previousDelayMs":' || previous_delay, '')
  || iif(error_class IS NULL, '', ',"errorClass":' || json_quote(error_class))
  || iif(error_code IS NULL, '', ',"errorCode":' || json_quote(error_code))
  || iif(error_message IS NULL, '', ',"errorMessage":' || json_quote(error_message))
  || iif(task.reason IS NULL, '', ',"reason":' || json_quote(task.reason)) || '}'`

/** Redrives, edits and cancels tasks for operators and operations. */
export function operatorStatements(db: Preparer) {
  return {
    state: db.prepare<[string], StateRow>(/* sql */ `
      SELECT seq, lane, state, entries, cancel_requested, operation, answered, failure_group, unique_key
      FROM task WHERE id = ?`),
    waiting: db.prepare<[string], WaitingRow>(/* sql */ `
      SELECT seq, lane, state, entries, next_at AS nextAttemptAt, priority, started_at AS startedAt, attempts, deferrals, losses,
             value
      FROM task WHERE id = ?`),
    arrange: db.prepare(/* sql */ `
      UPDATE task
      SET state = :state, next_at = :nextAttemptAt, priority = :priority, started_at = :startedAt, entries = entries + 1
      WHERE seq = :seq`),
    unfinished: db.prepare<[string], { running: number; begun: number }>(/* sql */ `
      SELECT state = 3 AS running, state = 3 OR attempts > 0 OR deferrals > 0 OR losses > 0 AS begun
      FROM task WHERE id = ? AND state < 4`),
    lastOutcome: db
      .prepare<[number, number], string>(/* sql */ `SELECT outcome FROM ledger WHERE task = ? AND sequence = ?`)
      .pluck(),
    dead: db.prepare<[string], StandingRow>(/* sql */ `
      SELECT ${STANDING_COLUMNS} FROM task WHERE id = ? AND state = 6`),
    ended: db.prepare<[string], StandingRow & { readonly state: number; readonly has_steps: number }>(/* sql */ `
      SELECT ${STANDING_COLUMNS}, state, has_steps FROM task WHERE id = ? AND state > 3`),
    /** A waiting task that has not changed since, in a lane that is not paused. */
    expiring: db.prepare<[string, number], StandingRow>(/* sql */ `
      SELECT ${STANDING_COLUMNS} FROM task
      WHERE id = ? AND changed_at = ? AND state < 3 AND NOT (SELECT paused FROM lane WHERE lane.id = task.lane)`),
    /** The dead tasks among the ids of a JSON array, in their order, that died by a time and this operation has not moved. */
    deadAmong: db.prepare<{ ids: string; until: number; operation: string | null }, DeadRow>(/* sql */ `
      SELECT task.seq, task.id, task.lane, task.failure_group
      FROM json_each(:ids) AS one CROSS JOIN task ON task.id = one.value
      WHERE task.state = 6 AND task.changed_at <= :until AND (:operation IS NULL OR task.operation IS NOT :operation)`),
    item: db.prepare<[string], { run: string; stage: string; changedAt: number }>(/* sql */ `
      SELECT lane.key AS run, lane.category AS stage, task.changed_at AS changedAt
      FROM task CROSS JOIN lane ON lane.id = task.lane
      WHERE task.id = ? AND task.lane >= ${FIRST_RUN_LANE}`),
    recordRedrive: db.prepare<RedriveValues>(/* sql */ `
      INSERT INTO ledger (task, sequence, category, attempt, started_at, ended_at, worker, outcome, reason, before)
      SELECT seq, entries + 1, nullif(lane.category, ''), 0, :now, :now, :who, 'redriven', :why, ${BEFORE}
      FROM json_each(:seqs) AS one CROSS JOIN task ON task.seq = one.value CROSS JOIN lane ON lane.id = task.lane`),
    redrive: db.prepare<Omit<RedriveValues, 'who' | 'why'> & { operation: string | null }>(/* sql */ `
      UPDATE OR FAIL task
      SET state = iif(losses >= ${ALONE_FROM_LOSSES}, 2, 1), changed_at = :now, next_at = :now, started_at = :now,
          entries = entries + 1, attempts = 0, deferrals = 0, undecided = 0, previous_delay = NULL, error_class = NULL,
          error_code = NULL, error_message = NULL, reason = NULL, result = NULL, cancel_requested = 0, claim = NULL,
          worker = NULL, operation = :operation, answered = 0
      WHERE seq IN (SELECT value FROM json_each(:seqs))`),
    answer: db.prepare(/* sql */ `UPDATE task SET answered = 1 WHERE seq = ?`),
    addTally: db.prepare<OperationTally & { operation: string }>(/* sql */ `
      INSERT INTO operation_tally (operation, passed, failed, unanswered, succeeded, skipped, dead, cancelled)
      VALUES (:operation, :passed, :failed, :unanswered, :succeeded, :skipped, :dead, :cancelled)
      ON CONFLICT (operation) DO UPDATE
      SET passed = passed + :passed, failed = failed + :failed, unanswered = unanswered + :unanswered,
          succeeded = succeeded + :succeeded, skipped = skipped + :skipped, dead = dead + :dead,
          cancelled = cancelled + :cancelled`),
    edit: db.prepare(/* sql */ `UPDATE task SET payload = ?, entries = entries + 1 WHERE seq = ?`),
    payload: db.prepare<[number], string>(/* sql */ `SELECT payload FROM task WHERE seq = ?`).pluck(),
    /** The row of the redrive keeps the original. */
    patch: db.prepare(/* sql */ `UPDATE task SET payload = :payload WHERE seq = :seq`),
    keepPayload: db.prepare(/* sql */ `
      UPDATE ledger SET before = json_set(before, '$.payload', :payload)
      WHERE task = :seq AND sequence = (SELECT entries FROM task WHERE seq = :seq)`),
    mark: db.prepare(/* sql */ `UPDATE task SET operation = ?, answered = 0 WHERE seq = ?`),
    cancel: db.prepare(/* sql */ `
      UPDATE task SET state = 7, changed_at = ?, next_at = NULL, entries = entries + ? WHERE seq = ?`),
    requestCancel: db.prepare(/* sql */ `
      UPDATE task SET cancel_requested = 1, entries = entries + ? WHERE seq = ?`),
  }
}
