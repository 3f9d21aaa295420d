import type { Preparer } from '../driver.js'
import { type Held, IS_HELD } from './held.js'

/** A limit that lanes share: both columns are JSON. */
export interface SharedRow {
  readonly limits: string
  readonly state: string
}

/** Whether a lane with work belongs to a shared limit, as the index `lane_shared` has it. */
const IS_BUSY_SHARING = /* sql */ `shared IS NOT NULL AND waiting + running > 0 AND shared = ?`

/** Keeps the limits that several lanes share, and the cost of tasks. */
export function sharedLimitStatements(db: Preparer) {
  return {
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
  }
}
