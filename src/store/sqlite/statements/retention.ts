import { FIRST_RUN_LANE } from '../../runs/items.js'
import type { Preparer } from '../driver.js'

const OPERATIONS_OVER = /* sql */ `
  SELECT id FROM operation INDEXED BY operation_created
  WHERE created_at <= :before AND open = 0 AND state ->> 'changedAt' <= :before
  ORDER BY created_at LIMIT :limit + 0`

/** Deletes what is past its retention. */
export function retentionStatements(db: Preparer) {
  return {
    endedBefore: db.prepare<
      [number, number, number],
      { seq: number; lane: number; failure_group: string | null }
    >(/* sql */ `
      SELECT seq, lane, failure_group FROM task INDEXED BY task_ended
      WHERE state = ? AND state > 3 AND lane < ${FIRST_RUN_LANE} AND changed_at <= ?
      ORDER BY changed_at
      LIMIT ? + 0`),
    forgetTask: db.prepare(/* sql */ `DELETE FROM task WHERE seq = ?`),
    forgetLedger: db.prepare(/* sql */ `DELETE FROM ledger WHERE task = ?`),
    forgetKeys: db.prepare(/* sql */ `
      DELETE FROM idempotency
      WHERE key IN (SELECT key FROM idempotency INDEXED BY idempotency_done
                    WHERE done_at <= ? ORDER BY done_at LIMIT ? + 0)`),
    forgetTallies: db.prepare(/* sql */ `DELETE FROM operation_tally WHERE operation IN (${OPERATIONS_OVER})`),
    forgetOperations: db.prepare(/* sql */ `DELETE FROM operation WHERE id IN (${OPERATIONS_OVER})`),
    /** Looks only at the oldest records: they are in the order of their times, so no index is needed. */
    forgetAudit: db.prepare(/* sql */ `
      DELETE FROM audit
      WHERE at <= ? AND id IN (SELECT id FROM audit ORDER BY id LIMIT ? + 0)`),
  }
}
