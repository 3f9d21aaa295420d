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
    sharedIds: db.prepare<[], number>(/* sql */ `SELECT id FROM shared_limit WHERE quota IS NULL`).pluck(),
    /** Quotas with waiting tasks: idle ones cost a claim nothing. */
    waitingQuotas: db
      .prepare<[], number>(/* sql */ `
        SELECT its.id FROM lane INDEXED BY lane_shared JOIN shared_limit AS its ON its.id = lane.shared
        WHERE shared IS NOT NULL AND waiting + running > 0 AND its.quota IS NOT NULL
        GROUP BY lane.shared HAVING sum(waiting) > 0`)
      .pluck(),
    hasQuotas: db
      .prepare<[], number>(/* sql */ `
        SELECT EXISTS (SELECT 1 FROM shared_limit INDEXED BY shared_limit_quota WHERE quota IS NOT NULL)`)
      .pluck(),
    shared: db.prepare<[number], SharedRow>(/* sql */ `SELECT limits, state FROM shared_limit WHERE id = ?`),
    sharedFor: db.prepare<{ kind: string; category: string | null }, SharedRow & { id: number }>(/* sql */ `
      SELECT id, limits, state FROM shared_limit WHERE quota IS NULL AND kind = :kind AND category IS :category`),
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
      WHERE kind = :kind AND (:category IS NULL OR category = :category)
        AND NOT EXISTS (SELECT 1 FROM shared_limit AS its WHERE its.id = lane.shared AND its.quota IS NOT NULL)`),
    dropShared: db.prepare(/* sql */ `
      DELETE FROM shared_limit
      WHERE quota IS NULL AND id <> :id AND kind = :kind AND (:category IS NULL OR category = :category)`),
    quotaOf: db
      .prepare<[number], string | null>(/* sql */ `
        SELECT its.quota FROM lane JOIN shared_limit AS its ON its.id = lane.shared WHERE lane.id = ?`)
      .pluck(),
    /** Makes the limit of a quota, as its kind has it, if there is none. */
    makeQuota: db.prepare<{ kind: string; quota: string; limits: string; state: string }>(/* sql */ `
      INSERT INTO shared_limit (kind, quota, limits, state)
      SELECT :kind, :quota, ifnull(
        (SELECT limits FROM shared_limit INDEXED BY shared_limit_quota WHERE kind = :kind AND quota = ''), :limits), :state
      WHERE true ON CONFLICT DO NOTHING`),
    joinQuota: db.prepare<{ lane: number; kind: string; quota: string }>(/* sql */ `
      UPDATE lane SET shared = (
        SELECT id FROM shared_limit INDEXED BY shared_limit_quota WHERE kind = :kind AND quota = :quota)
      WHERE id = :lane`),
    quotas: db.prepare<[string], SharedRow & { readonly quota: string }>(/* sql */ `
      SELECT quota, limits, state FROM shared_limit INDEXED BY shared_limit_quota WHERE kind = ? AND quota IS NOT NULL`),
    saveQuota: db.prepare<{ kind: string; quota: string; limits: string; state: string }>(/* sql */ `
      INSERT INTO shared_limit (kind, quota, limits, state) VALUES (:kind, :quota, :limits, :state)
      ON CONFLICT (kind, quota) WHERE quota IS NOT NULL DO UPDATE SET limits = :limits, state = :state`),
    quotaRange: db
      .prepare<[], [first: number | null, last: number | null]>(/* sql */ `
        SELECT min(id), max(id) FROM shared_limit WHERE quota IS NOT NULL`)
      .raw(),
    /** Quotas with ids after one that no lane is under. */
    unusedQuotas: db.prepare<[number, number], SharedRow & { readonly id: number }>(/* sql */ `
      SELECT id, limits, state FROM (SELECT * FROM shared_limit WHERE id > ? ORDER BY id LIMIT ? + 0) AS its
      WHERE quota > '' AND NOT EXISTS (SELECT 1 FROM lane INDEXED BY lane_sharing WHERE shared = its.id)`),
    forgetQuota: db.prepare<[number]>(/* sql */ `DELETE FROM shared_limit WHERE id = ?`),
    declare: db.prepare<{ lanes: string; limits: string }>(/* sql */ `
      INSERT INTO declared_limit (lanes, limits) VALUES (:lanes, :limits)
      ON CONFLICT (lanes) DO UPDATE SET limits = :limits WHERE limits <> :limits`),
    cost: db.prepare<[number], string | null>(/* sql */ `SELECT cost FROM task WHERE seq = ?`).pluck(),
    runningCost: db.prepare<Held, { cost: string | null }>(/* sql */ `SELECT cost FROM task WHERE ${IS_HELD}`),
  }
}
