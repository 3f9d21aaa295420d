import { ALONE_FROM_LOSSES } from '../../rules/after-settlement.js'
import type { Preparer } from '../driver.js'
import { type Held, IS_HELD } from './held.js'
import { STANDING_COLUMNS, type StandingValues } from './standing-row.js'

/** The values of `IS_IN_BATCH`. */
export type Batch = [first: number, last: number, claim: string, lane: number]

/** Whether no operation has moved a task, and it has no unique key, whose end is told to nobody. */
const IS_PLAIN = /* sql */ `operation IS NULL AND unique_key IS NULL`

/** Whether a task between two `seq` is running in a claim and a lane, and is plain. */
const IS_IN_BATCH = /* sql */ `seq BETWEEN ? AND ? AND state = 3 AND claim = ? AND lane = ? AND ${IS_PLAIN}`

const SUCCEEDED = /* sql */ `
  state = 4, changed_at = ?, result = ?, ran_from = ?, ran_to = ?, ran_attempt = ?, worker = ?, version = ?, call = ?,
  release = ?, value = NULL, entries = entries + 1, attempts = 0, deferrals = 0, losses = 0, undecided = 0, cancel_requested = 0,
  previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL, failure_group = NULL, claim = NULL`

/** The category of a lane, for the ledger; NULL if it has none. */
const CATEGORY = /* sql */ `(SELECT nullif(category, '') FROM lane WHERE id = ?)`

/** Applies outcomes and writes the ledger. */
export function settleStatements(db: Preparer) {
  return {
    succeed: db.prepare(/* sql */ `
      UPDATE task
      SET ${SUCCEEDED}
      WHERE ${IS_HELD} AND ${IS_PLAIN} AND failure_group IS NULL`),
    /**
     * The plain tasks of a claim and a lane that run, between two `seq`: their ids, in that order, and
     * how many of them are in failure groups.
     */
    runningBetween: db
      .prepare<Batch, [ids: string | null, grouped: number]>(/* sql */ `
        SELECT group_concat(id, char(0)), count(failure_group) FROM task
        WHERE ${IS_IN_BATCH}`)
      .raw(),
    /** As `runningBetween`, of a JSON array of `seq` in its order. A join takes half the time of `IN`. */
    runningAmong: db
      .prepare<[string, string, number], [ids: string | null, grouped: number]>(/* sql */ `
        SELECT group_concat(task.id, char(0)), count(failure_group)
        FROM json_each(?) AS one CROSS JOIN task ON task.seq = one.value
        WHERE state = 3 AND claim = ? AND lane = ? AND ${IS_PLAIN}`)
      .raw(),
    /** The failure groups of tasks, of a JSON array of `seq`. */
    groupsOf: db
      .prepare<[string], [group: string, count: number]>(/* sql */ `
        SELECT failure_group, count(*) FROM json_each(?) AS one CROSS JOIN task ON task.seq = one.value
        WHERE failure_group IS NOT NULL
        GROUP BY failure_group`)
      .raw(),
    /** Successes that differ in nothing but their `seq`: those of `runningBetween`, and a JSON array of `seq`. */
    succeedBetween: db.prepare(/* sql */ `
      UPDATE OR FAIL task
      SET ${SUCCEEDED}
      WHERE ${IS_IN_BATCH}`),
    succeedAmong: db.prepare(/* sql */ `
      UPDATE OR FAIL task
      SET ${SUCCEEDED}
      WHERE seq IN (SELECT value FROM json_each(?))`),
    running: db
      .prepare<Held, StandingValues>(/* sql */ `
        SELECT ${STANDING_COLUMNS} FROM task WHERE ${IS_HELD}`)
      .raw(),
    spend: db.prepare<{ lane: number; hour: number; bucket: string; amount: number }>(/* sql */ `
      INSERT INTO cost_tally (kind, key, category, hour, bucket, amount)
      SELECT kind, key, category, :hour, :bucket, :amount FROM lane WHERE id = :lane
      ON CONFLICT (kind, key, category, hour, bucket) DO UPDATE SET amount = amount + excluded.amount`),
    ranFrom: db.prepare<Held, number>(/* sql */ `SELECT ran_from FROM task WHERE ${IS_HELD}`).pluck(),
    change: db.prepare(/* sql */ `
      UPDATE task
      SET state = ?, value = CASE WHEN ? IN (4, 5) THEN NULL ELSE value END, changed_at = ?, next_at = ?, started_at = ?,
          entries = ?, attempts = ?, deferrals = ?, losses = ?, undecided = ?, previous_delay = ?, error_class = ?, error_code = ?, error_message = ?, failure_group = ?, reason = ?,
          result = ?, blocks = ?, budget = ?, cancel_requested = 0, claim = NULL, worker = NULL
      WHERE seq = ?`),
    retry: db.prepare(/* sql */ `
      UPDATE task
      SET state = ifnull(?, CASE WHEN losses >= ${ALONE_FROM_LOSSES} THEN 2 ELSE 1 END), budget = ?, changed_at = ?, next_at = ?,
          entries = entries + 1, attempts = max(attempts + 1, ?), previous_delay = ifnull(?, previous_delay),
          error_class = 'retryable', error_code = ?, error_message = ?, failure_group = ?, claim = NULL, worker = NULL
      WHERE ${IS_HELD} AND cancel_requested = 0 AND undecided = 0 AND operation IS NULL AND failure_group IS ?`),
    /** The row of a plain retry, after its task was changed. */
    appendRetry: db.prepare(/* sql */ `
      INSERT INTO ledger (task, sequence, outcome, error_class, category, attempt, started_at, ended_at, worker, version,
                          call, stack, trace, release, failure_group, delay_ms, error_code, error, random, policy)
      VALUES (?, (SELECT entries FROM task WHERE seq = ?), 'retry', 'retryable',
              ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    append: db.prepare(/* sql */ `
      INSERT INTO ledger (task, sequence, category, attempt, started_at, ended_at, worker, version, call, stack, trace,
                          release, failure_group, outcome, delay_ms, reason, error_class, error_code, retry_after, error,
                          random, policy, before, notes)
      VALUES (?, ?, ${CATEGORY}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    complete: db.prepare(/* sql */ `
      UPDATE ledger
      SET delay_ms = ?, reason = ?, error_class = ?, error_code = ?, retry_after = ?, error = ?, random = ?, policy = ?
      WHERE task = ? AND sequence = (SELECT max(sequence) FROM ledger WHERE task = ? AND outcome = 'lost')`),
  }
}
