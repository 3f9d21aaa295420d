import type { Lane } from '../../contract/lane.js'
import { FIRST_RUN_LANE } from '../../rules/runs/items.js'
import type { Preparer } from '../driver.js'

const NEW_COLUMNS = /* sql */ `lane, state, priority, submitted_at, started_at, changed_at, next_at, traceparent`

/** Adds tasks and lanes, and counts the tasks of lanes. */
export function enqueueStatements(db: Preparer) {
  return {
    laneId: db
      .prepare<[string, string, string], number>(/* sql */ `
        SELECT id FROM lane WHERE kind = ? AND category = ? AND key = ?`)
      .pluck(),
    insertLane: db
      .prepare<{ kind: string; category: string; key: string; run: number | null }, number>(/* sql */ `
        INSERT INTO lane (id, kind, category, key, paused, shared, concurrency, per_second, ordered, blocking, tokens)
        SELECT
          CASE WHEN :run IS NOT NULL THEN :run
               WHEN :key = ''        THEN (SELECT min(0, ifnull(min(id), 0)) - 1 FROM lane)
               ELSE (SELECT max(0, ifnull(max(id), 0)) + 1 FROM lane WHERE id < ${FIRST_RUN_LANE}) END,
          :kind, :category, :key,
          ifnull((SELECT paused FROM pause_rule
                  WHERE kind = :kind AND ifnull(category = :category, 1) AND ifnull(key = :key, 1)
                  ORDER BY id DESC LIMIT 1), 0),
          (SELECT id FROM shared_limit
           WHERE quota IS NULL AND kind = :kind AND ifnull(category = :category, 1)
           ORDER BY id DESC LIMIT 1),
          concurrency, per_second, ifnull(ordered, 0), ifnull(blocking, 0), max(1, ifnull(per_second, 1))
        FROM (SELECT 1) LEFT JOIN (
          SELECT concurrency, per_second, ordered, blocking FROM limit_rule
          WHERE kind = :kind AND ifnull(category = :category, 1) AND ifnull(key = :key, 1)
          ORDER BY id DESC LIMIT 1
        )
        RETURNING id`)
      .pluck(),
    /** Changes when another connection has committed. */
    dataVersion: db.prepare<[], number>('PRAGMA data_version').pluck(),
    lane: db.prepare<[number], Lane>(/* sql */ `SELECT kind, category, key FROM lane WHERE id = ?`),
    addRunLane: db.prepare<[]>(/* sql */ `INSERT INTO run_lane DEFAULT VALUES`),
    clearRunLanes: db.prepare<[]>(/* sql */ `DELETE FROM run_lane`),
    insertTask: db.prepare(/* sql */ `
      INSERT INTO task (${NEW_COLUMNS}, id, payload, cost, policy)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (id) DO NOTHING`),
    insertUnique: db.prepare(/* sql */ `
      INSERT INTO task (${NEW_COLUMNS}, id, payload, cost, policy, unique_key, unique_while)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (id) DO NOTHING`),
    /** What there is by an id. */
    there: db.prepare<[string], { state: number; changed_at: number }>(/* sql */ `
      SELECT state, changed_at FROM task WHERE id = ?`),
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
  }
}
