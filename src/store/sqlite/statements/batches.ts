import type { Preparer } from '../driver.js'
import { oncePerConnection } from './once-per-connection.js'

/** The statements of batches by name, prepared on one connection. */
export type BatchStatements = ReturnType<typeof prepare>

interface TallyRow {
  readonly state: number
  readonly kind: string
  readonly errorCode: string | null
  readonly count: number
}

/** Members are found by the index of ids: `+state` keeps the planner from the indexes of states. */
function prepare(db: Preparer) {
  return {
    unfinished: db
      .prepare<[from: string, end: string], string>(/* sql */ `
        SELECT id FROM task WHERE id >= ? AND id < ? AND +state <= 3 ORDER BY id LIMIT 1`)
      .pluck(),
    members: db
      .prepare<[after: string, end: string, states: string, limit: number], string>(/* sql */ `
        SELECT id FROM task WHERE id > ? AND id < ? AND +state IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT ? + 0`)
      .pluck(),
    tally: db.prepare<[first: string, end: string], TallyRow>(/* sql */ `
      SELECT task.state, lane.kind, task.error_code AS errorCode, count(*) AS count
      FROM task CROSS JOIN lane ON lane.id = task.lane
      WHERE task.id >= ? AND task.id < ?
      GROUP BY task.state, lane.kind, task.error_code`),
  }
}

/** The statements of batches of a connection. */
export const batchStatementsOf = oncePerConnection(prepare)
