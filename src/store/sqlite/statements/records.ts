import type { Preparer } from '../driver.js'

/** An idempotency key with its state. */
export interface KeyRow {
  readonly fingerprint: string
  readonly token: string
  readonly until: number
  readonly lease_ms: number | null
  readonly result: string | null
}

/** Keeps policies, the audit log and idempotency keys. */
export function recordStatements(db: Preparer) {
  return {
    keepPolicy: db.prepare(/* sql */ `INSERT INTO policy (hash, policy) VALUES (?, ?) ON CONFLICT DO NOTHING`),
    policy: db.prepare<[string], string>(/* sql */ `SELECT policy FROM policy WHERE hash = ?`).pluck(),
    appendAudit: db.prepare(/* sql */ `INSERT INTO audit (at, record) VALUES (?, ?)`),
    audit: db.prepare<[number, number], { id: number; record: string }>(/* sql */ `
      SELECT id, record FROM audit WHERE id > ? ORDER BY id LIMIT ? + 0`),
    auditTail: db.prepare<[number], { id: number; record: string }>(/* sql */ `
      SELECT id, record FROM audit ORDER BY id DESC LIMIT ? + 0`),

    key: db.prepare<[string], KeyRow>(/* sql */ `
      SELECT fingerprint, token, until, lease_ms, result FROM idempotency WHERE key = ?`),
    takeKey: db.prepare(/* sql */ `
      INSERT INTO idempotency (key, fingerprint, token, until, lease_ms)
      VALUES (:key, :fingerprint, :token, :now + :leaseMs, :leaseMs)
      ON CONFLICT (key) DO UPDATE SET token = excluded.token, until = excluded.until, lease_ms = excluded.lease_ms`),
    // Written by a clock that was ahead: from now on, the lease has its length.
    boundKey: db.prepare(/* sql */ `
      UPDATE idempotency SET until = :now + lease_ms WHERE key = :key AND until > :now + lease_ms`),
    renewKey: db.prepare(/* sql */ `
      UPDATE idempotency SET until = :now + :leaseMs, lease_ms = :leaseMs
      WHERE key = :key AND token = :token AND result IS NULL`),
    completeKey: db.prepare(/* sql */ `
      UPDATE idempotency SET result = ifnull(result, :result), done_at = ifnull(done_at, :now)
      WHERE key = :key AND token = :token`),
    releaseKey: db.prepare(/* sql */ `DELETE FROM idempotency WHERE key = ? AND token = ? AND result IS NULL`),
    clearKey: db.prepare(/* sql */ `DELETE FROM idempotency WHERE key = ?`),
  }
}
