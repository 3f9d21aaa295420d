import type { Preparer } from '../driver.js'

/** The state of a lane that decides whether one of its tasks may start. */
export interface LaneStateRow {
  readonly paused: number
  readonly held_until: number
  /** The task that holds it until then. */
  readonly held_by: string | null
  readonly ordered: number
  readonly blocking: number
  readonly running: number
  readonly ramp: number | null
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly tokens: number
  readonly refilled_at: number
  readonly shared: number | null
}

/** A rate begins with a second's worth. */
const SET_LIMITS = /* sql */ `
  UPDATE lane
  SET concurrency = :concurrency, per_second = :per_second, ordered = :ordered, blocking = :blocking, tokens = max(1, ifnull(:per_second, 1)),
      refilled_at = :now`

const MATCHES_FILTER = /* sql */ `
  kind = :kind AND (:category IS NULL OR category = :category) AND (:key IS NULL OR key = :key)`

const HAS_OTHER_LIMITS = /* sql */ `
  (concurrency IS NOT :concurrency OR per_second IS NOT :per_second OR ordered IS NOT :ordered
    OR blocking IS NOT :blocking)`

/** Whether a rule is the pause of a run, and lanes are selected without a key: what stops a run is for the run to end. */
const IS_OF_RUN = /* sql */ `:key IS NULL AND pause_rule.key IS NOT NULL AND pause_rule.kind GLOB 'pipeline:*'`

/** Reads the state of lanes, and pauses, holds and limits them. */
export function laneStatements(db: Preparer) {
  return {
    laneState: db.prepare<[number], LaneStateRow>(/* sql */ `
      SELECT paused, held_until, held_by, ordered, blocking, running, ramp, concurrency, per_second, tokens, refilled_at, shared
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
      WHERE ${MATCHES_FILTER} AND NOT (${IS_OF_RUN})`),
    addPauseRule: db.prepare(/* sql */ `
      INSERT INTO pause_rule (kind, category, key, paused, at, who, why)
      VALUES (:kind, :category, :key, :paused, :at, :who, :why)`),
    /** The last rule that matches a lane holds, so those of runs come last. */
    keepRunPauses: db.prepare(/* sql */ `
      UPDATE pause_rule SET id = id + (SELECT max(id) FROM pause_rule)
      WHERE kind = :kind AND ${IS_OF_RUN}`),
    pause: db.prepare(/* sql */ `
      UPDATE lane SET paused = :paused
      WHERE ${MATCHES_FILTER} AND NOT EXISTS (
        SELECT 1 FROM pause_rule
        WHERE pause_rule.kind = lane.kind AND pause_rule.key = lane.key AND pause_rule.paused = 1 AND ${IS_OF_RUN})`),
    dropLimitRules: db.prepare(/* sql */ `
      DELETE FROM limit_rule
      WHERE ${MATCHES_FILTER}`),
    addLimitRule: db.prepare(/* sql */ `
      INSERT INTO limit_rule (kind, category, key, concurrency, per_second, ordered, blocking)
      VALUES (:kind, :category, :key, :concurrency, :per_second, :ordered, :blocking)`),
    limitLanes: db.prepare(/* sql */ `
      ${SET_LIMITS}
      WHERE ${MATCHES_FILTER} AND ${HAS_OTHER_LIMITS}`),
  }
}
