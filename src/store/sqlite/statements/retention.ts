import type { EndedStatus } from '../../contract/store.js'
import { FIRST_RUN_LANE } from '../../rules/runs/items.js'
import type { Preparer } from '../driver.js'

/** The rule that limits a lane. */
const LAST_RULE = /* sql */ `limit_rule AS rule
  WHERE rule.kind = lane.kind AND ifnull(rule.category = lane.category, 1) AND ifnull(rule.key = lane.key, 1)
  ORDER BY rule.id DESC LIMIT 1`

/** Whether a task is neither a dead letter that blocks its lane, nor a member of a batch. */
export const IS_PRUNABLE = /* sql */ `
  NOT (task.state = 6 AND task.blocks IS NOT NULL AND (SELECT lane.blocking FROM lane WHERE lane.id = task.blocks))
  AND NOT (task.id >= 'batch:' AND task.id < 'batch;' AND EXISTS (
    SELECT 1 FROM record
    WHERE type = 'batch' AND record.id = substr(task.id, 7, instr(substr(task.id, 7), ':') - 1)))`

/** Deletes what is past its retention. */
export function retentionStatements(db: Preparer) {
  return {
    endedBefore: db.prepare<
      [number, number, number],
      { seq: number; lane: number; failure_group: string | null; has_steps: number }
    >(/* sql */ `
      SELECT seq, lane, failure_group, has_steps FROM task INDEXED BY task_ended
      WHERE state = ? AND state > 3 AND lane < ${FIRST_RUN_LANE} AND changed_at <= ? AND ${IS_PRUNABLE}
      ORDER BY changed_at
      LIMIT ? + 0`),
    /** How many tasks have ended in each status, without items. */
    endedTotals: db.prepare<[], Record<EndedStatus, number | null>>(/* sql */ `
      SELECT sum(succeeded) AS succeeded, sum(skipped) AS skipped, sum(cancelled) AS cancelled, sum(dead) AS dead
      FROM lane WHERE id < ${FIRST_RUN_LANE}`),
    forgetTask: db.prepare(/* sql */ `DELETE FROM task WHERE seq = ?`),
    forgetLedger: db.prepare(/* sql */ `DELETE FROM ledger WHERE task = ?`),
    laneRange: db
      .prepare<[], [first: number | null, last: number | null]>(/* sql */ `
        SELECT min(id), max(id) FROM lane WHERE id > 0 AND id < ${FIRST_RUN_LANE}`)
      .raw(),
    /** Forgets idle lanes with ids after one. The last lane stays, so that no id is given twice. */
    forgetLanes: db.prepare<{ after: number; last: number; limit: number; now: number; cooled: number }>(/* sql */ `
      DELETE FROM lane
      WHERE id IN (SELECT id FROM lane WHERE id > :after AND id < :last ORDER BY id LIMIT :limit + 0)
        AND waiting = 0 AND running = 0 AND succeeded = 0 AND skipped = 0 AND dead = 0 AND cancelled = 0
        AND paused = 0 AND held_until <= :now AND (ramp IS NULL OR held_until <= :cooled)
        AND (per_second IS NULL OR tokens + (:now - refilled_at) * per_second / 1000 >= max(1, per_second))
        AND concurrency IS (SELECT rule.concurrency FROM ${LAST_RULE})
        AND per_second IS (SELECT rule.per_second FROM ${LAST_RULE})
        AND ordered = ifnull((SELECT rule.ordered FROM ${LAST_RULE}), 0)
        AND blocking = ifnull((SELECT rule.blocking FROM ${LAST_RULE}), 0)`),
    forgetKeys: db.prepare(/* sql */ `
      DELETE FROM idempotency
      WHERE key IN (SELECT key FROM idempotency INDEXED BY idempotency_done
                    WHERE done_at <= ? ORDER BY done_at LIMIT ? + 0)`),
    forgetCosts: db.prepare<[number]>(/* sql */ `DELETE FROM cost_tally WHERE hour < ?`),
    /** Looks only at the oldest records: they are in the order of their times, so no index is needed. */
    forgetAudit: db.prepare(/* sql */ `
      DELETE FROM audit
      WHERE at <= ? AND id IN (SELECT id FROM audit ORDER BY id LIMIT ? + 0)`),
  }
}
