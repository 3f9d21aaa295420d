import { ALONE_FROM_LOSSES } from '../../rules/after-settlement.js'
import type { LostKey } from '../../rules/unique-keys.js'
import type { Preparer } from '../driver.js'

/** The row of a key. */
export interface UniqueKeyRow {
  readonly task: string
  readonly since: number
  readonly until: number | null
  readonly next: string | null
  readonly next_at: number | null
}

/** Where a task stands that has a key. */
export interface HolderRow {
  readonly state: number
  readonly changed_at: number
  readonly begun: number
  readonly unique_while: string | null
}

/** Keeps unique keys, and moves the tasks that they name. */
export function uniqueStatements(db: Preparer) {
  return {
    keyRow: db.prepare<[string, string], UniqueKeyRow>(/* sql */ `
      SELECT task, since, until, next, next_at FROM unique_key WHERE kind = ? AND key = ?`),
    addKey: db.prepare<[string, string, string, number, number | null]>(/* sql */ `
      INSERT INTO unique_key (kind, key, task, since, until) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT DO NOTHING`),
    saveKey: db.prepare(/* sql */ `
      INSERT OR REPLACE INTO unique_key (kind, key, task, since, until, next, next_at) VALUES (?, ?, ?, ?, ?, ?, ?)`),
    dropKey: db.prepare<[string, string]>(/* sql */ `DELETE FROM unique_key WHERE kind = ? AND key = ?`),
    forgetUnique: db.prepare<[number]>(/* sql */ `DELETE FROM unique_key WHERE until <= ? AND next IS NULL`),
    keyHolder: db.prepare<[string], HolderRow>(/* sql */ `
      SELECT state, changed_at, unique_while,
             state >= 3 OR attempts > 0 OR deferrals > 0 OR losses > 0 OR has_steps AS begun
      FROM task WHERE id = ?`),
    /** The dead tasks among the ids of a JSON array that had a key until they ended, as `deadAmong` finds them. */
    lostKeys: db.prepare<{ ids: string; until: number; operation: string | null }, LostKey>(/* sql */ `
      SELECT task.id, lane.kind, task.unique_key AS key
      FROM json_each(:ids) AS one CROSS JOIN task ON task.id = one.value CROSS JOIN lane ON lane.id = task.lane
      WHERE task.state = 6 AND task.unique_while = 'unfinished' AND task.changed_at <= :until
        AND (:operation IS NULL OR task.operation IS NOT :operation)`),
    named: db
      .prepare<[string], string>(/* sql */ `
        SELECT id FROM task INDEXED BY task_unique WHERE unique_key = ? AND unique_key IS NOT NULL`)
      .pluck(),
    /** A due time is written for tasks that wait and have not begun, so they need not run alone. */
    postponeTask: db.prepare(/* sql */ `
      UPDATE task SET payload = ?, state = ?, next_at = ?, started_at = ?, changed_at = ? WHERE id = ?`),
    queueTask: db.prepare<[number, string]>(/* sql */ `
      UPDATE task SET state = 0, next_at = ? WHERE id = ? AND state < 3`),
    freeTask: db.prepare<{ id: string; at: number; now: number }>(/* sql */ `
      UPDATE task
      SET state = CASE WHEN :at > :now THEN 0 WHEN losses >= ${ALONE_FROM_LOSSES} THEN 2 ELSE 1 END, next_at = :at,
          started_at = :at
      WHERE id = :id AND state = 0`),
  }
}
