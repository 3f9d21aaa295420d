import type { Preparer } from '../driver.js'
import { type Held, IS_HELD } from './held.js'

/** A row of the table `step`. */
export interface KeptStep {
  readonly name: string
  readonly done: number
  readonly result: string | null
  readonly state: string
}

/** Records, reads and forgets the steps of tasks. */
export function stepStatements(db: Preparer) {
  return {
    /** One that is done stays as it is. */
    recordStep: db.prepare<[name: string, done: number, result: string | null, state: string, ...Held]>(/* sql */ `
      INSERT INTO step (task, name, done, result, state)
      SELECT seq, ?, ?, ?, ? FROM task WHERE ${IS_HELD}
      ON CONFLICT (task, name) DO UPDATE SET done = excluded.done, result = excluded.result, state = excluded.state
      WHERE done = 0`),
    /** Whether a task has had steps before; no row if its token does not hold. */
    hasSteps: db.prepare<Held, number>(/* sql */ `SELECT has_steps FROM task WHERE ${IS_HELD}`).pluck(),
    noteSteps: db.prepare<[number]>(/* sql */ `UPDATE task SET has_steps = 1 WHERE seq = ?`),
    stepsOf: db.prepare<[string], KeptStep>(/* sql */ `
      SELECT step.name, step.done, step.result, step.state FROM task CROSS JOIN step ON step.task = task.seq
      WHERE task.id = ? AND task.has_steps
      ORDER BY step.sequence`),
    /** Of a JSON array of ids; with `later`, those that were first recorded after it too. Their attempts stay on record. */
    forgetSteps: db.prepare<{ ids: string; name: string; later: number }>(/* sql */ `
      UPDATE step SET done = 0, result = NULL WHERE done = 1 AND sequence IN (
        SELECT gone.sequence FROM json_each(:ids) AS one
        CROSS JOIN task ON task.id = one.value AND task.has_steps
        CROSS JOIN step AS named ON named.task = task.seq AND named.name = :name
        CROSS JOIN step AS gone ON gone.task = task.seq
          AND (gone.sequence = named.sequence OR :later AND gone.sequence > named.sequence))`),
    dropSteps: db.prepare<[number]>(/* sql */ `DELETE FROM step WHERE task = ?`),
  }
}
