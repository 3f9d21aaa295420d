import { ALONE_FROM_LOSSES } from '../../rules/after-settlement.js'
import type { Preparer } from '../driver.js'
import { SeqStatement } from '../seq-statement.js'
import { firstLetter, headOf, placeIn } from './letters.js'
import { HISTORY_COLUMNS } from './standing-row.js'

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
  policy: string | null,
  /** `HistoryValues` and `has_steps` as JSON; NULL: nothing of it is on record. */
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

/** The history comes with the ready task, for those few that have one: a query for each would cost twice as much. */
const READY_COLUMNS = /* sql */ `
  seq, id, priority, submitted_at, started_at, payload, value, traceparent, policy,
  CASE WHEN entries > 0 OR previous_delay IS NOT NULL OR has_steps THEN json_array(${HISTORY_COLUMNS}, has_steps) END AS history`

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

/** Makes due tasks ready, finds open lanes, and takes tasks from them. */
export function claimStatements(db: Preparer) {
  return {
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
        -- In an ordered lane, a task that must run alone, or waits for its retry budget, goes before all others. So does a
        -- dead letter that blocks it.
        AND NOT (lane.ordered AND (
          EXISTS (SELECT 1 FROM task INDEXED BY task_alone WHERE task.state = 2 AND task.lane = lane.id)
          OR EXISTS (SELECT 1 FROM task INDEXED BY task_budgeted_lane WHERE task.state = -1 AND task.lane = lane.id)
          OR lane.blocking AND (
            SELECT ${firstLetter('lane.id', placeIn('head'))} FROM ${headOf('lane.id')} AS head
          ) IS NOT NULL
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
      WHERE task.state = 2 AND ${IS_OPEN} AND NOT (lane.blocking AND ${firstLetter('lane.id', placeIn('task'))} IS NOT NULL)
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
  }
}
