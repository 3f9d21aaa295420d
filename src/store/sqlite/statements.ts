import { ALONE_FROM_LOSSES } from '../after-settlement.js'
import type { LifeRow } from '../groups/life-row.js'
import type { RuleRow } from '../groups/rule-row.js'
import type { Lane } from '../lane.js'
import type { OperationTally } from '../operation-store.js'
import { FIRST_RUN_LANE } from '../runs/items.js'
import type { Connection, Preparer } from './driver.js'
import { SeqStatement } from './seq-statement.js'

/**
 * Every statement of the store by its name, prepared on one connection. Hot ones take their values by position.
 *
 * `OR FAIL`, in hot statements that change many rows: an error undoes the whole job anyway, so SQLite need not keep copies of
 * all pages that the statement changes, to undo it alone.
 *
 * `LIMIT ? + 0`: with a bare parameter there, the planner would look at its value and plan again for each.
 */
export type Statements = ReturnType<typeof prepare>

const prepared = new WeakMap<Connection, Statements>()

/** The statements of a connection, prepared when they are first asked for. */
export function statementsOf(db: Connection): Statements {
  let statements = prepared.get(db)
  if (statements === undefined) {
    statements = prepare(db as unknown as Preparer)
    prepared.set(db, statements)
  }
  return statements
}

/** A ready task, as an array: rows as objects cost a claim a tenth of its time. */
export type ReadyRow = [
  seq: number,
  id: string,
  priority: number,
  submittedAt: number,
  startedAt: number,
  payload: string,
  value: string | null,
  traceparent: string | null,
  /** `HistoryValues` as JSON; NULL: nothing of it is on record. */
  history: string | null,
]

/** The lanes that a room of a claim names and no earlier room does. */
export interface ClaimScope {
  readonly now: number
  /** A JSON array of texts. */
  readonly kinds: string
  /** A JSON array of texts; NULL: all categories. */
  readonly categories: string | null
  /** Shared limits that let none of their tasks start, as a JSON array; NULL: there are none. */
  readonly closed: string | null
  /** Earlier rooms that name some of the same lanes, as a JSON array; NULL: there are none. */
  readonly earlier: string | null
}

/** A lane that a claim may take from. */
export interface OpenLaneRow {
  readonly id: number
  readonly kind: string
  readonly category: string
  readonly key: string
  readonly running: number
  readonly ramp: number | null
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly tokens: number
  readonly refilled_at: number
  readonly shared: number | null
}

/** The counters and the last error of a task. */
export interface HistoryRow {
  readonly attempts: number
  readonly deferrals: number
  readonly losses: number
  readonly undecided: number
  readonly previous_delay: number | null
  readonly error_class: string | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly failure_group: string | null
}

/** The part of a task that the rules of a settlement read, and where it is kept. */
export interface StandingRow extends HistoryRow {
  readonly seq: number
  readonly id: string
  readonly lane: number
  readonly entries: number
  readonly started_at: number
  readonly cancel_requested: number
  /** When it was claimed, while it runs. */
  readonly ran_from: number | null
  readonly changed_at: number
  readonly reason: string | null
  /** The operation that moved it, and whether it has made a counted attempt since. */
  readonly operation: string | null
  readonly answered: number
}

/** The columns of a `HistoryRow` as an array, which the driver makes in a quarter of the time. */
export type HistoryValues = [
  attempts: number,
  deferrals: number,
  losses: number,
  undecided: number,
  previousDelay: number | null,
  errorClass: string | null,
  errorCode: string | null,
  errorMessage: string | null,
  failureGroup: string | null,
]

/** The columns of a `StandingRow` as an array. */
export type StandingValues = [
  ...history: HistoryValues,
  seq: number,
  id: string,
  lane: number,
  entries: number,
  startedAt: number,
  cancelRequested: number,
  ranFrom: number | null,
  changedAt: number,
  reason: string | null,
  operation: string | null,
  answered: number,
]

/** The values of `IS_HELD`. */
export type Held = [seq: number, lane: number, claim: string, id: string]

/** The values of `IS_IN_BATCH`. */
export type Batch = [first: number, last: number, claim: string, lane: number]

/** Where a task stands, for a cancellation. */
export interface StateRow {
  readonly seq: number
  readonly lane: number
  readonly state: number
  readonly entries: number
  readonly operation: string | null
  readonly answered: number
  readonly failure_group: string | null
}

/** A dead task to redrive. */
export interface DeadRow {
  readonly seq: number
  readonly id: string
  readonly lane: number
  readonly failure_group: string | null
}

/** The tasks to redrive, as a JSON array of their places, and the person who asks. */
interface RedriveValues {
  readonly seqs: string
  readonly now: number
  readonly who: string
  readonly why: string | null
}

/** The state of a lane that decides whether one of its tasks may start. */
export interface LaneStateRow {
  readonly paused: number
  readonly held_until: number
  /** The task that holds it until then. */
  readonly held_by: string | null
  readonly ordered: number
  readonly running: number
  readonly ramp: number | null
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly tokens: number
  readonly refilled_at: number
  readonly shared: number | null
}

/** A limit that lanes share: both columns are JSON. */
export interface SharedRow {
  readonly limits: string
  readonly state: string
}

/** A budget: its last four columns are JSON. */
export interface BudgetRow {
  readonly id: number
  readonly kind: string
  readonly category: string | null
  readonly settings: string
  readonly gate: string
  readonly counts: string
  readonly retries: string
}

/** The scope of a budget; NULL: all categories. */
interface ScopeRow {
  readonly kind: string
  readonly category: string | null
}

/** The place of a waiting task in its lane. */
export interface OrderRow {
  readonly priority: number
  readonly submitted_at: number
  readonly id: string
}

/** A task of a group, with the last failure in its ledger. */
interface MemberRow {
  readonly seq: number
  readonly state: number
  readonly sequence: number
  readonly ended_at: number
}

/** A worker with its report: `kinds` and `categories` are JSON. */
export interface WorkerRow {
  readonly id: string
  readonly until: number
  readonly since: number | null
  readonly beat_at: number | null
  readonly release: string | null
  readonly kinds: string | null
  readonly categories: string | null
  readonly host: string | null
  readonly grouping: string | null
}

/** An idempotency key with its state. */
export interface KeyRow {
  readonly fingerprint: string
  readonly token: string
  readonly until: number
  readonly result: string | null
}

const NEW_COLUMNS = /* sql */ `lane, state, priority, submitted_at, started_at, changed_at, next_at, traceparent`

const HISTORY_COLUMNS = /* sql */ `
  attempts, deferrals, losses, undecided, previous_delay, error_class, error_code, error_message, failure_group`

/** The history comes with the ready task, for those few that have one: a query for each would cost twice as much. */
const READY_COLUMNS = /* sql */ `
  seq, id, priority, submitted_at, started_at, payload, value, traceparent,
  CASE WHEN entries > 0 OR previous_delay IS NOT NULL THEN json_array(${HISTORY_COLUMNS}) END AS history`

export const STANDING_COLUMNS = /* sql */ `
  ${HISTORY_COLUMNS}, seq, id, lane, entries, started_at, cancel_requested, ran_from, changed_at, reason, operation, answered`

/** The history in the columns of `HISTORY_COLUMNS`. */
export function historyRow(values: HistoryValues): HistoryRow {
  return {
    attempts: values[0],
    deferrals: values[1],
    losses: values[2],
    undecided: values[3],
    previous_delay: values[4],
    error_class: values[5],
    error_code: values[6],
    error_message: values[7],
    failure_group: values[8],
  }
}

/** The standing in the columns of `STANDING_COLUMNS`. */
export function standingRow(values: StandingValues): StandingRow {
  return {
    attempts: values[0],
    deferrals: values[1],
    losses: values[2],
    undecided: values[3],
    previous_delay: values[4],
    error_class: values[5],
    error_code: values[6],
    error_message: values[7],
    failure_group: values[8],
    seq: values[9],
    id: values[10],
    lane: values[11],
    entries: values[12],
    started_at: values[13],
    cancel_requested: values[14],
    ran_from: values[15],
    changed_at: values[16],
    reason: values[17],
    operation: values[18],
    answered: values[19],
  }
}

/** Whether a lane belongs to the room of a claim, and whether its pause, hold and limits let a task start. */
const IS_OPEN = /* sql */ `
  lane.kind IN (SELECT value FROM json_each(:kinds))
  AND (:categories IS NULL OR lane.category IN (SELECT value FROM json_each(:categories)))
  AND (:earlier IS NULL OR NOT EXISTS (
    SELECT 1 FROM json_each(:earlier) AS room
    WHERE lane.kind IN (SELECT value FROM json_each(room.value, '$.kinds'))
      AND (json_type(room.value, '$.categories') IS NULL
        OR lane.category IN (SELECT value FROM json_each(room.value, '$.categories')))
  ))
  AND NOT lane.paused
  AND (:closed IS NULL OR lane.shared IS NULL OR lane.shared NOT IN (SELECT value FROM json_each(:closed)))
  AND lane.held_until <= :now
  AND (lane.ramp IS NULL OR lane.running < lane.ramp)
  AND (lane.concurrency IS NULL OR lane.running < lane.concurrency)
  AND (lane.per_second IS NULL OR lane.tokens + (:now - lane.refilled_at) * lane.per_second / 1000 > 1 - 1e-9)`

/** The retry budget of a lane: that of its category, or else that of its kind. NULL if it has none. */
const RETRY_BUDGET = /* sql */ `(
  SELECT budget.id FROM budget
  WHERE budget.kind = lane.kind AND ifnull(budget.category = lane.category, 1)
    AND budget.settings ->> '$.retries' IS NOT NULL
  ORDER BY budget.category IS NULL
  LIMIT 1)`

/** Whether a lane with work belongs to a shared limit, as the index `lane_shared` has it. */
const IS_BUSY_SHARING = /* sql */ `shared IS NOT NULL AND waiting + running > 0 AND shared = ?`

const OPERATIONS_OVER = /* sql */ `
  SELECT id FROM operation INDEXED BY operation_created
  WHERE created_at <= :before AND open = 0 AND state ->> 'changedAt' <= :before
  ORDER BY created_at LIMIT :limit + 0`

const SUCCEEDED = /* sql */ `
  state = 4, changed_at = ?, result = ?, ran_from = ?, ran_to = ?, ran_attempt = ?, worker = ?, version = ?, call = ?,
  release = ?, value = NULL, entries = entries + 1, attempts = 0, deferrals = 0, losses = 0, undecided = 0, cancel_requested = 0,
  previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL, failure_group = NULL, claim = NULL`

/** The item enters its next stage: fresh counters, and a claim derived from the one before. */
const NEXT_STAGE = /* sql */ `
  lane = ?, value = ?, cost = ?, claim = ?, changed_at = ?, started_at = ?, attempts = 0, deferrals = 0, losses = 0,
  undecided = 0, previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL`

/** Whether a token still holds a task. */
const IS_HELD = /* sql */ `seq = ? AND lane = ? AND state = 3 AND claim = ? AND id = ?`

/** Whether a task between two `seq` is running in a claim and a lane, and no operation has moved it. */
const IS_IN_BATCH = /* sql */ `seq BETWEEN ? AND ? AND state = 3 AND claim = ? AND lane = ? AND operation IS NULL`

const IS_TO_ADVANCE = /* sql */ `${IS_HELD} AND cancel_requested = 0 AND failure_group IS NULL`

/** The category of a lane, for the ledger; NULL if it has none. */
const CATEGORY = /* sql */ `(SELECT nullif(category, '') FROM lane WHERE id = ?)`

/** The part of a dead task that a redrive clears, as JSON without the fields that it does not have. */
const BEFORE = /* sql */ `
  '{"attempts":' || attempts || ',"deferrals":' || deferrals || ',"startedAt":' || started_at
  || ',"changedAt":' || changed_at
  || ifnull(',"previousDelayMs":' || previous_delay, '')
  || iif(error_class IS NULL, '', ',"errorClass":' || json_quote(error_class))
  || iif(error_code IS NULL, '', ',"errorCode":' || json_quote(error_code))
  || iif(error_message IS NULL, '', ',"errorMessage":' || json_quote(error_message))
  || iif(task.reason IS NULL, '', ',"reason":' || json_quote(task.reason)) || '}'`

/** A rate begins with a second's worth. */
const SET_LIMITS = /* sql */ `
  UPDATE lane
  SET concurrency = :concurrency, per_second = :per_second, ordered = :ordered, tokens = max(1, ifnull(:per_second, 1)),
      refilled_at = :now`

const MATCHES_FILTER = /* sql */ `
  kind = :kind AND (:category IS NULL OR category = :category) AND (:key IS NULL OR key = :key)`

const HAS_OTHER_LIMITS = /* sql */ `
  (concurrency IS NOT :concurrency OR per_second IS NOT :per_second OR ordered IS NOT :ordered)`

function prepare(db: Preparer) {
  return {
    // Enqueue

    laneId: db
      .prepare<[string, string, string], number>(/* sql */ `
        SELECT id FROM lane WHERE kind = ? AND category = ? AND key = ?`)
      .pluck(),
    insertLane: db
      .prepare<{ kind: string; category: string; key: string; run: number | null }, number>(/* sql */ `
        INSERT INTO lane (id, kind, category, key, paused, shared, concurrency, per_second, ordered, tokens)
        SELECT
          CASE WHEN :run IS NOT NULL THEN :run
               WHEN :key = ''        THEN (SELECT min(0, ifnull(min(id), 0)) - 1 FROM lane)
               ELSE (SELECT max(0, ifnull(max(id), 0)) + 1 FROM lane WHERE id < ${FIRST_RUN_LANE}) END,
          :kind, :category, :key,
          ifnull((SELECT paused FROM pause_rule
                  WHERE kind = :kind AND ifnull(category = :category, 1) AND ifnull(key = :key, 1)
                  ORDER BY id DESC LIMIT 1), 0),
          (SELECT id FROM shared_limit
           WHERE kind = :kind AND ifnull(category = :category, 1)
           ORDER BY id DESC LIMIT 1),
          concurrency, per_second, ifnull(ordered, 0), max(1, ifnull(per_second, 1))
        FROM (SELECT 1) LEFT JOIN (
          SELECT concurrency, per_second, ordered FROM limit_rule
          WHERE kind = :kind AND ifnull(category = :category, 1) AND ifnull(key = :key, 1)
          ORDER BY id DESC LIMIT 1
        )
        RETURNING id`)
      .pluck(),
    lane: db.prepare<[number], Lane>(/* sql */ `SELECT kind, category, key FROM lane WHERE id = ?`),
    addRunLane: db.prepare<[]>(/* sql */ `INSERT INTO run_lane DEFAULT VALUES`),
    clearRunLanes: db.prepare<[]>(/* sql */ `DELETE FROM run_lane`),
    insertTask: db.prepare(/* sql */ `
      INSERT INTO task (${NEW_COLUMNS}, id, payload, cost)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (id) DO NOTHING`),
    /** Tasks that differ in their ids and payloads, which are a JSON object. One by one they would cost twice as much. */
    insertAlike: db.prepare(/* sql */ `
      INSERT OR FAIL INTO task (${NEW_COLUMNS}, id, payload)
      SELECT ?, ?, ?, ?, ?, ?, ?, ?, key, value FROM json_each(?) WHERE true
      ON CONFLICT (id) DO NOTHING`),
    idsAfter: db.prepare<[number], string>(/* sql */ `SELECT id FROM task WHERE seq > ?`).pluck(),
    /** The last `submitted_at` that waits or runs in an ordered lane. */
    lastPlace: db
      .prepare<{ lane: number; priority: number }, number | null>(/* sql */ `
        SELECT max(
          ifnull((SELECT max(submitted_at) FROM task INDEXED BY task_ready
                  WHERE state = 1 AND lane = :lane AND priority = :priority), 0),
          ifnull((SELECT max(submitted_at) FROM task INDEXED BY task_budgeted_lane
                  WHERE state = -1 AND lane = :lane AND priority = :priority), 0),
          ifnull((SELECT max(submitted_at) FROM task INDEXED BY task_running
                  WHERE state = 3 AND lane = :lane AND priority = :priority), 0)
        )`)
      .pluck(),
    count: db.prepare(/* sql */ `
      UPDATE lane
      SET waiting   = waiting + ?,
          running   = running + ?,
          succeeded = succeeded + ?,
          skipped   = skipped + ?,
          dead      = dead + ?,
          cancelled = cancelled + ?
      WHERE id = ?`),

    // Claim

    makeReady: db.prepare(/* sql */ `
      UPDATE OR FAIL task SET state = CASE WHEN losses >= ${ALONE_FROM_LOSSES} THEN 2 ELSE 1 END
      WHERE seq IN (SELECT seq FROM task WHERE state = 0 AND next_at <= ? ORDER BY next_at LIMIT ? + 0)`),
    letThrough: db.prepare(/* sql */ `
      UPDATE OR FAIL task SET state = CASE WHEN losses >= ${ALONE_FROM_LOSSES} THEN 2 ELSE 1 END
      WHERE seq IN (SELECT seq FROM task INDEXED BY task_budgeted
                    WHERE state = -1 AND budget = ? AND next_at <= ? ORDER BY next_at, id LIMIT ? + 0)`),
    dueBudgeted: db.prepare<[number, number, number], { readonly next_at: number; readonly id: string }>(/* sql */ `
      SELECT next_at, id FROM task INDEXED BY task_budgeted
      WHERE state = -1 AND budget = ? AND next_at <= ? ORDER BY next_at, id LIMIT ? + 0`),
    nextBudgeted: db
      .prepare<[number], number | null>(/* sql */ `
        SELECT min(next_at) FROM task INDEXED BY task_budgeted WHERE state = -1 AND budget = ?`)
      .pluck(),
    /** The first lane with ready tasks, of those after one and up to another. */
    firstBusy: db
      .prepare<[number, number], number | null>(/* sql */ `
        SELECT min(lane) FROM task WHERE state = 1 AND lane > ? AND lane <= ?`)
      .pluck(),
    /**
     * Steps from lane to lane over the index of ready tasks, so the number of tasks does not matter; from a lane of a kind that
     * is not asked for, to the next one that is. So the lanes of other kinds, or behind an open gate, cost nothing.
     */
    openLanes: db.prepare<ClaimScope & { first: number; last: number; limit: number }, OpenLaneRow>(/* sql */ `
      WITH RECURSIVE busy (lane) AS (
        SELECT :first
        UNION ALL
        SELECT (
          SELECT min(lane) FROM task WHERE state = 1 AND lane <= :last AND lane > CASE
            WHEN (SELECT kind FROM lane WHERE id = busy.lane) IN (SELECT value FROM json_each(:kinds)) THEN busy.lane
            ELSE (
              SELECT min((SELECT min(id) FROM lane INDEXED BY lane_kind WHERE kind = asked.value AND id > busy.lane)) - 1
              FROM json_each(:kinds) AS asked
            ) END
        )
        FROM busy WHERE busy.lane IS NOT NULL
      )
      SELECT id, kind, category, key, running, ramp, concurrency, per_second, tokens, refilled_at, shared
      FROM busy CROSS JOIN lane ON lane.id = busy.lane
      WHERE ${IS_OPEN}
        -- In an ordered lane, a task that must run alone, or waits for its retry budget, goes before all others.
        AND NOT (lane.ordered AND (
          EXISTS (SELECT 1 FROM task INDEXED BY task_alone WHERE task.state = 2 AND task.lane = lane.id)
          OR EXISTS (SELECT 1 FROM task INDEXED BY task_budgeted_lane WHERE task.state = -1 AND task.lane = lane.id)
        ))
      LIMIT :limit + 0`),
    ready: db
      .prepare<[number, number], ReadyRow>(/* sql */ `
        SELECT ${READY_COLUMNS} FROM task INDEXED BY task_ready
        WHERE state = 1 AND lane = ?
        ORDER BY priority DESC, submitted_at, id
        LIMIT ? + 0`)
      .raw(),
    isAnyAlone: db
      .prepare<[], number>(/* sql */ `SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_alone WHERE state = 2)`)
      .pluck(),
    alone: db.prepare<ClaimScope, OpenLaneRow & { seq: number }>(/* sql */ `
      SELECT task.seq, lane.id, kind, category, key, running, ramp, concurrency, per_second, tokens, refilled_at, shared
      FROM task INDEXED BY task_alone CROSS JOIN lane ON lane.id = task.lane
      WHERE task.state = 2 AND ${IS_OPEN}
      ORDER BY task.priority DESC, task.submitted_at, task.id
      LIMIT 1`),
    readyRow: db.prepare<[number], ReadyRow>(/* sql */ `SELECT ${READY_COLUMNS} FROM task WHERE seq = ?`).raw(),
    /** Starts all tasks of a claim at once: one by one, a claim would cost half as much again. */
    start: new SeqStatement(
      db,
      /* sql */ `
        UPDATE OR FAIL task
        SET state = 3, worker = ?, claim = ?, ran_from = ?, changed_at = ?, next_at = NULL`,
    ),
    takeFromLane: db.prepare(/* sql */ `
      UPDATE lane
      SET tokens = :tokens, refilled_at = :now
      WHERE id = :id`),
    nextScheduled: db.prepare<[], number | null>(/* sql */ `SELECT min(next_at) FROM task WHERE state = 0`).pluck(),
    nextHeld: db
      .prepare<[number], number | null>(/* sql */ `
        SELECT min(held_until) FROM lane WHERE held_until > 0 AND held_until > ? AND waiting > 0`)
      .pluck(),
    nextToken: db
      .prepare<{ now: number }, number | null>(/* sql */ `
        SELECT min(refilled_at + (1 - tokens) * 1000 / per_second) FROM lane
        WHERE per_second IS NOT NULL AND waiting > 0
          AND tokens + (:now - refilled_at) * per_second / 1000 <= 1 - 1e-9`)
      .pluck(),

    // Workers

    lease: db.prepare(/* sql */ `
      INSERT INTO worker (id, until) VALUES (:worker, :until)
      ON CONFLICT (id) DO UPDATE SET until = max(until, excluded.until)`),
    report: db.prepare(/* sql */ `
      UPDATE worker
      SET release = :release, kinds = :kinds, categories = :categories, host = :host, grouping = :grouping,
          since = ifnull(since, :now), beat_at = :now
      WHERE id = :worker`),
    workers: db.prepare<[number], WorkerRow>(/* sql */ `SELECT * FROM worker WHERE until > ? ORDER BY id`),
    releaseOf: db.prepare<[string], string | null>(/* sql */ `SELECT release FROM worker WHERE id = ?`).pluck(),
    prolong: db.prepare(/* sql */ `UPDATE worker SET until = :until WHERE id = :worker AND until < :before`),
    expired: db.prepare<[number], string>(/* sql */ `SELECT id FROM worker WHERE until <= ?`).pluck(),
    removeWorker: db.prepare(/* sql */ `DELETE FROM worker WHERE id = ?`),
    runningOf: db.prepare<[string], StandingRow>(/* sql */ `
      SELECT ${STANDING_COLUMNS} FROM task INDEXED BY task_running WHERE state = 3 AND worker = ?`),
    cancelledOf: db
      .prepare<[string], string>(/* sql */ `
        SELECT seq || '.' || lane || '.' || claim FROM task INDEXED BY task_running
        WHERE state = 3 AND worker = ? AND cancel_requested = 1`)
      .pluck(),

    // Settle

    succeed: db.prepare(/* sql */ `
      UPDATE task
      SET ${SUCCEEDED}
      WHERE ${IS_HELD} AND operation IS NULL AND failure_group IS NULL`),
    /**
     * The running tasks of a claim and a lane that no operation has moved, between two `seq`: their ids, in that order, and
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
        WHERE state = 3 AND claim = ? AND lane = ? AND operation IS NULL`)
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
    ranFrom: db.prepare<Held, number>(/* sql */ `SELECT ran_from FROM task WHERE ${IS_HELD}`).pluck(),
    change: db.prepare(/* sql */ `
      UPDATE task
      SET state = ?, value = CASE WHEN ? IN (4, 5) THEN NULL ELSE value END, changed_at = ?, next_at = ?, started_at = ?, entries = ?, attempts = ?, deferrals = ?, losses = ?,
          undecided = ?, previous_delay = ?, error_class = ?, error_code = ?, error_message = ?, failure_group = ?, reason = ?,
          result = ?, budget = ?, cancel_requested = 0, claim = NULL, worker = NULL
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
                          random, policy, before)
      VALUES (?, ?, ${CATEGORY}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    complete: db.prepare(/* sql */ `
      UPDATE ledger
      SET delay_ms = ?, reason = ?, error_class = ?, error_code = ?, retry_after = ?, error = ?, random = ?, policy = ?
      WHERE task = ? AND sequence = ?`),

    // Advance

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
    order: db.prepare<[number], OrderRow>(/* sql */ `SELECT priority, submitted_at, id FROM task WHERE seq = ?`),
    head: db.prepare<[number], OrderRow>(/* sql */ `
      SELECT priority, submitted_at, id FROM task INDEXED BY task_ready
      WHERE state = 1 AND lane = ?
      ORDER BY priority DESC, submitted_at, id
      LIMIT 1`),
    /** Whether a task of an ordered lane goes before all others: it must run alone, or waits for its retry budget. */
    isBlocked: db
      .prepare<{ lane: number }, number>(/* sql */ `
        SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_alone WHERE state = 2 AND lane = :lane)
            OR EXISTS (SELECT 1 FROM task INDEXED BY task_budgeted_lane WHERE state = -1 AND lane = :lane)`)
      .pluck(),

    // Lanes

    laneState: db.prepare<[number], LaneStateRow>(/* sql */ `
      SELECT paused, held_until, held_by, ordered, running, ramp, concurrency, per_second, tokens, refilled_at, shared
      FROM lane WHERE id = ?`),
    /**
     * Whether there is a lane in which the end of one task may let another start, whether lanes share a limit, and whether
     * kinds have budgets.
     */
    bounds: db
      .prepare<[], [isBounded: number, isShared: number, hasBudgets: number]>(/* sql */ `
        SELECT EXISTS (
          SELECT 1 FROM lane INDEXED BY lane_bounded WHERE ramp IS NOT NULL OR concurrency IS NOT NULL
        ), EXISTS (SELECT 1 FROM shared_limit), EXISTS (SELECT 1 FROM budget)`)
      .raw(),
    setRamp: db.prepare(/* sql */ `UPDATE lane SET ramp = ?, held_until = ?, held_by = ? WHERE id = ?`),
    dropPauseRules: db.prepare(/* sql */ `
      DELETE FROM pause_rule
      WHERE ${MATCHES_FILTER}`),
    addPauseRule: db.prepare(/* sql */ `
      INSERT INTO pause_rule (kind, category, key, paused, at, who, why)
      VALUES (:kind, :category, :key, :paused, :at, :who, :why)`),
    pause: db.prepare(/* sql */ `
      UPDATE lane SET paused = :paused
      WHERE ${MATCHES_FILTER}`),
    dropLimitRules: db.prepare(/* sql */ `
      DELETE FROM limit_rule
      WHERE ${MATCHES_FILTER}`),
    addLimitRule: db.prepare(/* sql */ `
      INSERT INTO limit_rule (kind, category, key, concurrency, per_second, ordered)
      VALUES (:kind, :category, :key, :concurrency, :per_second, :ordered)`),
    limitLane: db.prepare(/* sql */ `${SET_LIMITS} WHERE id = :id AND ${HAS_OTHER_LIMITS}`),
    limitLanes: db.prepare(/* sql */ `
      ${SET_LIMITS}
      WHERE ${MATCHES_FILTER} AND ${HAS_OTHER_LIMITS}`),

    // Shared limits

    sharedIds: db.prepare<[], number>(/* sql */ `SELECT id FROM shared_limit`).pluck(),
    shared: db.prepare<[number], SharedRow>(/* sql */ `SELECT limits, state FROM shared_limit WHERE id = ?`),
    sharedFor: db.prepare<{ kind: string; category: string | null }, SharedRow & { id: number }>(/* sql */ `
      SELECT id, limits, state FROM shared_limit WHERE kind = :kind AND category IS :category`),
    sharedRunning: db
      .prepare<[number], number>(/* sql */ `
        SELECT ifnull(sum(running), 0) FROM lane INDEXED BY lane_shared WHERE ${IS_BUSY_SHARING}`)
      .pluck(),
    isSharedWaiting: db
      .prepare<[number], number>(/* sql */ `
        SELECT EXISTS (SELECT 1 FROM lane INDEXED BY lane_shared WHERE ${IS_BUSY_SHARING} AND waiting > 0)`)
      .pluck(),
    setShared: db.prepare(/* sql */ `UPDATE shared_limit SET state = ? WHERE id = ?`),
    addShared: db.prepare(/* sql */ `
      INSERT INTO shared_limit (kind, category, limits, state) VALUES (:kind, :category, :limits, :state)`),
    changeShared: db.prepare(/* sql */ `UPDATE shared_limit SET limits = :limits, state = :state WHERE id = :id`),
    share: db.prepare(/* sql */ `
      UPDATE lane SET shared = :id
      WHERE kind = :kind AND (:category IS NULL OR category = :category)`),
    dropShared: db.prepare(/* sql */ `
      DELETE FROM shared_limit
      WHERE id <> :id AND kind = :kind AND (:category IS NULL OR category = :category)`),
    declare: db.prepare<{ lanes: string; limits: string }>(/* sql */ `
      INSERT INTO declared_limit (lanes, limits) VALUES (:lanes, :limits)
      ON CONFLICT (lanes) DO UPDATE SET limits = :limits WHERE limits <> :limits`),
    cost: db.prepare<[number], string | null>(/* sql */ `SELECT cost FROM task WHERE seq = ?`).pluck(),
    runningCost: db.prepare<Held, { cost: string | null }>(/* sql */ `SELECT cost FROM task WHERE ${IS_HELD}`),

    // Budgets

    budgets: db.prepare<[], BudgetRow>(/* sql */ `
      SELECT id, kind, category, settings, gate, counts, retries FROM budget`),
    budgetFor: db.prepare<ScopeRow, BudgetRow>(/* sql */ `
      SELECT id, kind, category, settings, gate, counts, retries FROM budget WHERE kind = :kind AND category IS :category`),
    addBudget: db.prepare(/* sql */ `
      INSERT INTO budget (kind, category, settings, gate, counts) VALUES (:kind, :category, :settings, :gate, :counts)`),
    changeBudget: db.prepare(/* sql */ `UPDATE budget SET settings = ? WHERE id = ?`),
    setBudget: db.prepare(/* sql */ `UPDATE budget SET gate = ?, counts = ?, retries = ? WHERE id = ?`),
    /** Puts retries that wait under a budget under the one that their lane has now. */
    moveBudgeted: db.prepare<{ budget: number }>(/* sql */ `
      UPDATE task
      SET budget = its.budget,
          state = CASE WHEN its.budget IS NOT NULL THEN -1 WHEN NOT its.ordered THEN 0
                       WHEN task.losses >= ${ALONE_FROM_LOSSES} THEN 2 ELSE 1 END
      FROM (SELECT lane.id, lane.ordered, ${RETRY_BUDGET} AS budget FROM lane) AS its
      WHERE its.id = task.lane AND task.state = -1 AND task.budget = :budget AND its.budget IS NOT :budget`),
    /** Puts a retry that was moved here under the budget of its lane. */
    placeBudgeted: db.prepare<[number | bigint]>(/* sql */ `
      UPDATE task SET budget = its.budget, state = CASE WHEN its.budget IS NULL THEN 0 ELSE -1 END
      FROM (SELECT lane.id, ${RETRY_BUDGET} AS budget FROM lane) AS its
      WHERE its.id = task.lane AND task.seq = ?`),
    /** Puts retries that are not due yet under the budget of their lane. */
    adoptRetries: db.prepare<{ kind: string; now: number }>(/* sql */ `
      UPDATE task SET state = -1, budget = its.budget
      FROM (SELECT lane.id, ${RETRY_BUDGET} AS budget FROM lane WHERE lane.kind = :kind AND NOT lane.ordered) AS its
      WHERE its.id = task.lane AND its.budget IS NOT NULL
        AND task.state = 0 AND task.next_at > :now AND task.attempts > 0`),
    heldBy: db
      .prepare<[number, number, number], number>(/* sql */ `
        SELECT count(*) FROM (
          SELECT 1 FROM task INDEXED BY task_budgeted WHERE state = -1 AND budget = ? AND next_at <= ? LIMIT ? + 0
        )`)
      .pluck(),
    dropBudget: db.prepare<ScopeRow>(/* sql */ `DELETE FROM budget WHERE kind = :kind AND category IS :category`),
    runningIn: db
      .prepare<ScopeRow, number>(/* sql */ `
        SELECT ifnull(sum(running), 0) FROM lane WHERE kind = :kind AND (:category IS NULL OR category = :category)`)
      .pluck(),

    // Operators

    state: db.prepare<[string], StateRow>(/* sql */ `
      SELECT seq, lane, state, entries, operation, answered, failure_group FROM task WHERE id = ?`),
    dead: db.prepare<[string], StandingRow>(/* sql */ `
      SELECT ${STANDING_COLUMNS} FROM task WHERE id = ? AND state = 6`),
    /** The dead tasks among the ids of a JSON array, in their order, that died by a time and this operation has not moved. */
    deadAmong: db.prepare<{ ids: string; until: number; operation: string | null }, DeadRow>(/* sql */ `
      SELECT task.seq, task.id, task.lane, task.failure_group
      FROM json_each(:ids) AS one CROSS JOIN task ON task.id = one.value
      WHERE task.state = 6 AND task.changed_at <= :until AND (:operation IS NULL OR task.operation IS NOT :operation)`),
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
    editable: db.prepare<[string], { seq: number; lane: number; entries: number; payload: string }>(/* sql */ `
      SELECT seq, lane, entries, payload FROM task
      WHERE id = ? AND state IN (-1, 0, 1, 2, 6) AND lane < ${FIRST_RUN_LANE}`),
    payload: db.prepare<[number], string>(/* sql */ `SELECT payload FROM task WHERE seq = ?`).pluck(),
    /** The row of the redrive keeps the original. */
    patch: db.prepare(/* sql */ `UPDATE task SET payload = :payload WHERE seq = :seq`),
    keepPayload: db.prepare(/* sql */ `
      UPDATE ledger SET before = json_set(before, '$.payload', :payload)
      WHERE task = :seq AND sequence = (SELECT entries FROM task WHERE seq = :seq)`),
    mark: db.prepare(/* sql */ `UPDATE task SET operation = ?, answered = 0 WHERE seq = ?`),
    cancel: db.prepare(/* sql */ `
      UPDATE task SET state = 7, changed_at = ?, next_at = NULL, entries = entries + ? WHERE seq = ?`),
    requestCancel: db.prepare(/* sql */ `UPDATE task SET cancel_requested = 1 WHERE seq = ?`),

    // Failure groups

    groupLife: db.prepare<[string], LifeRow>(/* sql */ `
      SELECT life, marked_at, who, why, details FROM failure_group WHERE id = ?`),
    markGroup: db.prepare(/* sql */ `
      UPDATE failure_group SET life = :life, marked_at = :marked_at, who = :who, why = :why, details = :details
      WHERE id = :id`),
    groupsOfKind: db
      .prepare<[string, number], number>(/* sql */ `
        SELECT count(*) FROM (
          SELECT 1 FROM failure_group INDEXED BY failure_group_kind
          WHERE kind = ? AND id NOT LIKE 'other:%' AND id NOT LIKE 'lost:%'
          LIMIT ? + 0
        )`)
      .pluck(),
    otherGroupsOfKind: db
      .prepare<[string, number], number>(/* sql */ `
        SELECT count(*) FROM (
          SELECT 1 FROM failure_group INDEXED BY failure_group_kind WHERE kind = ? AND id LIKE 'other:%' LIMIT ? + 0
        )`)
      .pluck(),
    addGroup: db.prepare(/* sql */ `
      INSERT INTO failure_group (id, kind, code, error_name, pattern, frames, first_seen) VALUES (?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT DO NOTHING`),
    addToGroup: db.prepare(/* sql */ `
      INSERT INTO group_tally (failure_group, hour, seen, retrying, dead, last_seen) VALUES (?, ?, ?, ?, ?, ?)
      ON CONFLICT (failure_group, hour) DO UPDATE
      SET seen = seen + excluded.seen, retrying = retrying + excluded.retrying, dead = dead + excluded.dead,
          last_seen = max(last_seen, excluded.last_seen)`),
    /** The group of a running task that nobody asked to cancel. */
    groupToLeave: db
      .prepare<Held, string>(/* sql */ `
        SELECT failure_group FROM task WHERE ${IS_HELD} AND cancel_requested = 0 AND failure_group IS NOT NULL`)
      .pluck(),
    leaveGroup: db.prepare(/* sql */ `UPDATE task SET failure_group = NULL WHERE seq = ?`),
    addUpHours: db.prepare(/* sql */ `
      INSERT INTO group_tally (failure_group, hour, seen, retrying, dead, last_seen)
      SELECT failure_group, 0, sum(seen), sum(retrying), sum(dead), max(last_seen) FROM group_tally
      WHERE hour > 0 AND hour < ?
      GROUP BY failure_group
      ON CONFLICT (failure_group, hour) DO UPDATE
      SET seen = seen + excluded.seen, retrying = retrying + excluded.retrying, dead = dead + excluded.dead,
          last_seen = max(last_seen, excluded.last_seen)`),
    forgetHours: db.prepare(/* sql */ `DELETE FROM group_tally WHERE hour > 0 AND hour < ?`),
    idleGroups: db
      .prepare<[number], string>(/* sql */ `
        SELECT id FROM failure_group AS known LEFT JOIN group_tally ON group_tally.failure_group = known.id
        GROUP BY id
        HAVING max(first_seen, ifnull(max(last_seen), 0)) <= ?
          AND ifnull(sum(retrying), 0) = 0 AND ifnull(sum(dead), 0) = 0
          AND NOT EXISTS (SELECT 1 FROM task WHERE task.failure_group = known.id AND state <> 3)`)
      .pluck(),
    groupRules: db.prepare<[], RuleRow>(/* sql */ `SELECT id, kind, pattern, at, who, why FROM group_rule ORDER BY id`),
    addRule: db.prepare(/* sql */ `
      INSERT INTO group_rule (kind, pattern, at, who, why) VALUES (:kind, :pattern, :at, :who, :why)`),
    removeRule: db.prepare(/* sql */ `DELETE FROM group_rule WHERE id = ?`),
    regrouped: db.prepare<[], string>(/* sql */ `SELECT grouping FROM regrouped`).pluck(),
    setRegrouped: db.prepare(/* sql */ `
      INSERT INTO regrouped (id, grouping) VALUES (1, ?)
      ON CONFLICT (id) DO UPDATE SET grouping = excluded.grouping`),
    /** A member of a group, with the last failure in its ledger. */
    groupMember: db.prepare<[string, string], MemberRow>(/* sql */ `
      SELECT task.seq, task.state, ledger.sequence, ledger.ended_at
      FROM task JOIN ledger ON ledger.task = task.seq
      WHERE task.id = ? AND task.failure_group = ? AND ledger.failure_group = task.failure_group
      ORDER BY ledger.sequence DESC
      LIMIT 1`),
    setGroup: db.prepare(/* sql */ `UPDATE task SET failure_group = :group WHERE seq = :seq`),
    setLedgerGroup: db.prepare(/* sql */ `
      UPDATE ledger SET failure_group = :group WHERE task = :seq AND sequence = :sequence`),
    groupFacts: db.prepare<[string], LifeRow & { first_seen: number }>(/* sql */ `
      SELECT life, marked_at, who, why, details, first_seen FROM failure_group WHERE id = ?`),
    groupFigures: db.prepare<[string], { seen: number; living: number }>(/* sql */ `
      SELECT ifnull(sum(seen), 0) AS seen, ifnull(sum(retrying + dead), 0) AS living FROM group_tally
      WHERE failure_group = ?`),
    setFirstSeen: db.prepare(/* sql */ `UPDATE failure_group SET first_seen = min(first_seen, ?) WHERE id = ?`),
    inheritFigures: db.prepare(/* sql */ `
      INSERT INTO group_tally (failure_group, hour, seen, retrying, dead, last_seen)
      SELECT :heir, hour, seen, 0, 0, last_seen FROM group_tally WHERE failure_group = :left AND seen > 0
      ON CONFLICT (failure_group, hour) DO UPDATE
      SET seen = seen + excluded.seen, last_seen = max(last_seen, excluded.last_seen)`),
    clearSeen: db.prepare(/* sql */ `UPDATE group_tally SET seen = 0, last_seen = 0 WHERE failure_group = ?`),
    forgetGroup: db.prepare(/* sql */ `DELETE FROM failure_group WHERE id = ?`),
    forgetFigures: db.prepare(/* sql */ `DELETE FROM group_tally WHERE failure_group = ?`),

    // Records

    keepPolicy: db.prepare(/* sql */ `INSERT INTO policy (hash, policy) VALUES (?, ?) ON CONFLICT DO NOTHING`),
    policy: db.prepare<[string], string>(/* sql */ `SELECT policy FROM policy WHERE hash = ?`).pluck(),
    appendAudit: db.prepare(/* sql */ `INSERT INTO audit (at, record) VALUES (?, ?)`),
    audit: db.prepare<[number, number], { id: number; record: string }>(/* sql */ `
      SELECT id, record FROM audit WHERE id > ? ORDER BY id LIMIT ? + 0`),
    auditTail: db.prepare<[number], { id: number; record: string }>(/* sql */ `
      SELECT id, record FROM audit ORDER BY id DESC LIMIT ? + 0`),

    // Idempotency keys

    key: db.prepare<[string], KeyRow>(/* sql */ `
      SELECT fingerprint, token, until, result FROM idempotency WHERE key = ?`),
    takeKey: db.prepare(/* sql */ `
      INSERT INTO idempotency (key, fingerprint, token, until) VALUES (:key, :fingerprint, :token, :until)
      ON CONFLICT (key) DO UPDATE SET token = excluded.token, until = excluded.until`),
    renewKey: db.prepare(/* sql */ `
      UPDATE idempotency SET until = ? WHERE key = ? AND token = ? AND result IS NULL`),
    completeKey: db.prepare(/* sql */ `
      UPDATE idempotency SET result = ifnull(result, :result), done_at = ifnull(done_at, :now)
      WHERE key = :key AND token = :token`),
    releaseKey: db.prepare(/* sql */ `DELETE FROM idempotency WHERE key = ? AND token = ? AND result IS NULL`),
    clearKey: db.prepare(/* sql */ `DELETE FROM idempotency WHERE key = ?`),

    // Retention

    endedBefore: db.prepare<
      [number, number, number],
      { seq: number; lane: number; failure_group: string | null }
    >(/* sql */ `
      SELECT seq, lane, failure_group FROM task INDEXED BY task_ended
      WHERE state = ? AND state > 3 AND lane < ${FIRST_RUN_LANE} AND changed_at <= ?
      ORDER BY changed_at
      LIMIT ? + 0`),
    forgetTask: db.prepare(/* sql */ `DELETE FROM task WHERE seq = ?`),
    forgetLedger: db.prepare(/* sql */ `DELETE FROM ledger WHERE task = ?`),
    forgetKeys: db.prepare(/* sql */ `
      DELETE FROM idempotency
      WHERE key IN (SELECT key FROM idempotency INDEXED BY idempotency_done
                    WHERE done_at <= ? ORDER BY done_at LIMIT ? + 0)`),
    forgetTallies: db.prepare(/* sql */ `DELETE FROM operation_tally WHERE operation IN (${OPERATIONS_OVER})`),
    forgetOperations: db.prepare(/* sql */ `DELETE FROM operation WHERE id IN (${OPERATIONS_OVER})`),
    /** Looks only at the oldest records: they are in the order of their times, so no index is needed. */
    forgetAudit: db.prepare(/* sql */ `
      DELETE FROM audit
      WHERE at <= ? AND id IN (SELECT id FROM audit ORDER BY id LIMIT ? + 0)`),
  }
}
