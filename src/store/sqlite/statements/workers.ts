import type { Preparer } from '../driver.js'
import { STANDING_COLUMNS, type StandingRow } from './standing-row.js'

/** A worker with its report: `kinds`, `categories`, `overruns` and `notes` are JSON. */
export interface WorkerRow {
  readonly id: string
  readonly until: number
  readonly lease_ms: number | null
  readonly since: number | null
  readonly beat_at: number | null
  readonly release: string | null
  readonly kinds: string | null
  readonly categories: string | null
  readonly host: string | null
  readonly grouping: string | null
  readonly overruns: string | null
  readonly paused: number
  readonly notes: string | null
}

/** Keeps the leases and reports of workers. */
export function workerStatements(db: Preparer) {
  return {
    lease: db.prepare(/* sql */ `
      INSERT INTO worker (id, until, lease_ms) VALUES (:worker, :now + :leaseMs, :leaseMs)
      ON CONFLICT (id) DO UPDATE SET
        until = max(excluded.until, min(until, :now + ifnull(lease_ms, 0))),
        lease_ms = max(excluded.lease_ms, ifnull(lease_ms, 0))`),
    // A clock that was ahead must not keep a dead worker's tasks: from now on, the lease has its length.
    bound: db.prepare(/* sql */ `
      UPDATE worker SET until = :now + lease_ms, beat_at = min(beat_at, :now) WHERE until > :now + lease_ms`),
    report: db.prepare(/* sql */ `
      UPDATE worker
      SET release = :release, kinds = :kinds, categories = :categories, host = :host, grouping = :grouping,
          overruns = :overruns, paused = :paused, notes = :notes, since = ifnull(since, :now), beat_at = :now
      WHERE id = :worker`),
    workers: db.prepare<[number], WorkerRow>(/* sql */ `SELECT * FROM worker WHERE until > ? ORDER BY id`),
    reportOf: db.prepare<[string], { readonly release: string | null; readonly notes: string | null }>(/* sql */ `
      SELECT release, notes FROM worker WHERE id = ?`),
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
  }
}
