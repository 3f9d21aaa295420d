import type { ItemCounts } from '../../contract/run-store.js'
import { type TaskRow, taskColumns } from '../../rules/rows.js'
import { FIRST_RUN_LANE } from '../../rules/runs/items.js'
import type { RunRow } from '../../rules/runs/run-row.js'
import { State } from '../../rules/task-state.js'
import type { Preparer } from '../driver.js'
import { oncePerConnection } from './once-per-connection.js'

/** The statements of runs by name, prepared on one connection. */
export type RunStatements = ReturnType<typeof prepare>

/** Which items to reprocess. NULL matches all. */
export interface ReprocessScope {
  readonly kind: string
  readonly key: string | null
  readonly category: string | null
  readonly error_code: string | null
  readonly until: number
  readonly limit: number
}

const IS_MEANT = /* sql */ `
  lane.kind = :kind
  AND (:key IS NULL OR lane.key = :key)
  AND (:category IS NULL OR lane.category = :category)
  AND (:error_code IS NULL OR task.error_code = :error_code)
  AND EXISTS (SELECT 1 FROM run WHERE run.id = lane.key AND NOT run.forgotten)`

const IS_LANE_OF_RUN = /* sql */ `id >= ${FIRST_RUN_LANE} AND kind = :kind AND key = :key`

/** The states of items that have not ended, each with the index that finds them by their lane, or that is short. */
const UNFINISHED: readonly [state: number, index: string][] = [
  [State.ready, 'task_ready'],
  [State.scheduled, 'item_scheduled'],
  [State.budgeted, 'task_budgeted_lane'],
  [State.alone, 'task_alone'],
  [State.running, 'task_running'],
]

/** The items of a run in one of these states. */
function unfinished([state, index]: (typeof UNFINISHED)[number]): string {
  return /* sql */ `
    SELECT id FROM task INDEXED BY ${index}
    WHERE state = ${state} AND lane >= ${FIRST_RUN_LANE}
      AND lane IN (SELECT id FROM lane INDEXED BY lane_run WHERE ${IS_LANE_OF_RUN})`
}

/** The items to reprocess in one of these states. */
function waitingItems([state, index]: (typeof UNFINISHED)[number]): string {
  return /* sql */ `
    SELECT task.id FROM task INDEXED BY ${index} CROSS JOIN lane ON lane.id = task.lane
    WHERE task.state = ${state} AND task.lane >= ${FIRST_RUN_LANE} AND ${IS_MEANT}`
}

function prepare(db: Preparer) {
  return {
    run: db.prepare<[string], string>(/* sql */ `SELECT state FROM run WHERE id = ? AND NOT forgotten`).pluck(),
    open: db.prepare<RunRow>(/* sql */ `
      INSERT INTO run (id, pipeline, created_at, ended_at, dead, forgotten, has_output, next_check, state)
      VALUES (:id, :pipeline, :created_at, :ended_at, :dead, :forgotten, :has_output, :next_check, :state)
      ON CONFLICT DO NOTHING`),
    save: db.prepare<RunRow>(/* sql */ `
      UPDATE run
      SET ended_at = :ended_at, dead = :dead, forgotten = :forgotten, next_check = :next_check, state = :state
      WHERE id = :id`),
    list: db
      .prepare<object, string>(/* sql */ `
        SELECT state FROM run INDEXED BY run_created
        WHERE (created_at, id) < (:created_at, :id) AND NOT forgotten AND (:pipeline IS NULL OR pipeline = :pipeline)
        ORDER BY created_at DESC, id DESC
        LIMIT :limit + 0`)
      .pluck(),
    counts: db.prepare<{ kind: string; key: string }, ItemCounts & { category: string }>(/* sql */ `
      SELECT category, waiting, running, succeeded, skipped, dead, cancelled FROM lane INDEXED BY lane_run
      WHERE ${IS_LANE_OF_RUN}
      ORDER BY id`),

    // Items

    items: db.prepare<object, TaskRow>(/* sql */ `
      SELECT ${taskColumns()} FROM task JOIN lane ON lane.id = task.lane
      WHERE task.id > :after AND task.id < :end AND task.state IN (SELECT value FROM json_each(:states))
      ORDER BY task.id
      LIMIT :limit + 0`),
    addItem: db.prepare(/* sql */ `INSERT INTO run_item (run, position, task) VALUES (?, ?, ?)`),
    ownItems: db.prepare<object, TaskRow & { position: number }>(/* sql */ `
      SELECT run_item.position, ${taskColumns()}
      FROM run_item CROSS JOIN task ON task.id = run_item.task JOIN lane ON lane.id = task.lane
      WHERE run_item.run = :run AND run_item.position >= :from AND run_item.position < :end
        AND task.state IN (SELECT value FROM json_each(:states))
      ORDER BY run_item.position
      LIMIT :limit + 0`),
    waiting: db
      .prepare<object, string>(/* sql */ `
        ${UNFINISHED.slice(0, -1).map(unfinished).join(' UNION ALL ')} LIMIT :limit + 0`)
      .pluck(),
    running: db
      .prepare<object, string>(/* sql */ `
        ${UNFINISHED.slice(-1).map(unfinished).join()} AND cancel_requested = 0`)
      .pluck(),
    deadItems: db
      .prepare<ReprocessScope, string>(/* sql */ `
        SELECT task.id FROM task INDEXED BY item_ended CROSS JOIN lane ON lane.id = task.lane
        WHERE task.state = 6 AND task.state > 3 AND task.lane >= ${FIRST_RUN_LANE} AND task.changed_at <= :until
          AND ${IS_MEANT}
        LIMIT :limit + 0`)
      .pluck(),
    waitingItems: db
      .prepare<ReprocessScope, string>(/* sql */ `
        ${UNFINISHED.slice(0, -1).map(waitingItems).join(' UNION ALL ')} LIMIT :limit + 0`)
      .pluck(),
    moveItem: db.prepare(/* sql */ `UPDATE task SET lane = ? WHERE seq = ?`),
    deaths: db.prepare<object, { error_code: string | null; category: string; count: number }>(/* sql */ `
      SELECT task.error_code, lane.category, count(*) AS count
      FROM task INDEXED BY item_ended CROSS JOIN lane ON lane.id = task.lane
      WHERE task.state = 6 AND task.state > 3 AND task.lane >= ${FIRST_RUN_LANE} AND task.changed_at >= :since
        AND lane.kind = :kind AND lane.key = :key AND (:category IS NULL OR lane.category = :category)
      GROUP BY task.error_code, lane.category`),

    // Settlements of items

    watched: db.prepare<[number], { id: string; has_output: number; next_check: number | null }>(/* sql */ `
      SELECT run.id, run.has_output, run.next_check FROM lane CROSS JOIN run ON run.id = lane.key WHERE lane.id = ?`),
    processed: db
      .prepare<[string], number>(/* sql */ `
        SELECT sum(succeeded + skipped + dead) FROM lane INDEXED BY lane_run WHERE id >= ${FIRST_RUN_LANE} AND key = ?`)
      .pluck(),
    addOutput: db.prepare(/* sql */ `INSERT INTO run_output (run, task) VALUES (?, ?) ON CONFLICT DO NOTHING`),
    outputs: db.prepare<[string, number], { id: string; result: string | null }>(/* sql */ `
      SELECT task.id, task.result FROM run_output CROSS JOIN task ON task.id = run_output.task
      WHERE run_output.run = ?
      LIMIT ? + 0`),
    written: db.prepare(/* sql */ `DELETE FROM run_output WHERE run = ? AND task = ?`),

    // Pauses

    dropPauseRule: db.prepare(/* sql */ `
      DELETE FROM pause_rule WHERE kind = :kind AND category IS NULL AND key = :key`),
    /** Lanes are as paused as the rules that are left say. */
    pauseByRules: db.prepare(/* sql */ `
      UPDATE lane
      SET paused = ifnull((
        SELECT rule.paused FROM pause_rule AS rule
        WHERE rule.kind = lane.kind AND ifnull(rule.category = lane.category, 1) AND ifnull(rule.key = lane.key, 1)
        ORDER BY rule.id DESC LIMIT 1), 0)
      WHERE ${IS_LANE_OF_RUN}`),

    // Retention

    halfForgotten: db.prepare<[], string>(/* sql */ `SELECT state FROM run WHERE forgotten = 1 LIMIT 1`).pluck(),
    forgettable: db
      .prepare<object, string>(/* sql */ `
        SELECT state FROM run INDEXED BY run_ended
        WHERE ended_at IS NOT NULL AND ended_at <= :ended AND (dead = 0 OR ended_at <= :dead)
        ORDER BY ended_at
        LIMIT 1`)
      .pluck(),
    itemsToForget: db.prepare<
      [string, string, number],
      { seq: number; lane: number; state: number; failure_group: string | null; has_steps: number }
    >(/* sql */ `
      SELECT seq, lane, state, failure_group, has_steps FROM task WHERE id > ? AND id < ? AND lane >= ${FIRST_RUN_LANE} LIMIT ? + 0`),
    forgetPositions: db.prepare(/* sql */ `
      DELETE FROM run_item WHERE run = :run AND position IN (
        SELECT position FROM run_item WHERE run = :run LIMIT :limit + 0
      )`),
    forgetOutputs: db.prepare(/* sql */ `
      DELETE FROM run_output WHERE run = :run AND task IN (
        SELECT task FROM run_output WHERE run = :run LIMIT :limit + 0
      )`),
    forgetLanes: db.prepare(/* sql */ `DELETE FROM lane WHERE ${IS_LANE_OF_RUN}`),
    forgetLimitRules: db.prepare(/* sql */ `DELETE FROM limit_rule WHERE kind = :kind AND key = :key`),
    forgetPauseRules: db.prepare(/* sql */ `DELETE FROM pause_rule WHERE kind = :kind AND key = :key`),
    forgetRun: db.prepare(/* sql */ `DELETE FROM run WHERE id = ?`),
  }
}

/** The statements of runs of a connection. */
export const runStatementsOf = oncePerConnection(prepare)
