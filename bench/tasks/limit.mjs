// The upper limit of SQLite itself: hand-written SQL, in batches, on the store's own schema, leaving the same rows
// behind.
import Database from 'better-sqlite3'
import { openSqlite } from '../../dist/store/sqlite/index.js'

const BATCH = 500

/** An empty store, opened with nothing but the driver. */
export async function openRaw(path) {
  await (await openSqlite(path)).close()
  const db = new Database(path)
  db.pragma('synchronous = FULL')
  db.exec(`INSERT INTO lane (id, kind, category, key, paused) VALUES (-1, 'work', '', '', 0)`)
  return db
}

export function enqueue(db, count, batch = BATCH) {
  const insert = db.prepare(`
    INSERT INTO task (id, lane, state, priority, submitted_at, started_at, changed_at, payload)
    VALUES (?, -1, 1, 0, ?, ?, ?, ?)`)
  const waiting = db.prepare('UPDATE lane SET waiting = waiting + ? WHERE id = -1')
  for (let first = 0; first < count; first += batch) {
    inTransaction(db, () => {
      const now = Date.now()
      for (let n = first; n < first + batch; n++)
        insert.run(`0192${String(n).padStart(18, '0')}`, now, now, now, '{"n":1}')
      waiting.run(batch)
    })
  }
}

/** Drains the ready tasks; every `failing`th fails once, and is retried without a delay. */
export function drain(db, failing = 0) {
  const ready = db.prepare(`
    SELECT seq, id, payload, attempts FROM task INDEXED BY task_ready WHERE state = 1 AND lane = -1
    ORDER BY priority DESC, submitted_at, id LIMIT ?`)
  const claim = db.prepare(
    'UPDATE task SET state = 3, changed_at = ?, worker = ?, claim = ?, ran_from = ? WHERE seq = ?',
  )
  const succeed = db.prepare(`
    UPDATE task SET state = 4, changed_at = ?, claim = NULL, entries = entries + 1, attempts = 0, error_class = NULL,
      error_code = NULL, error_message = NULL, ran_to = ?, ran_attempt = ?, result = NULL
    WHERE seq = ? AND claim = ?`)
  const fail = db.prepare(`
    UPDATE task SET state = 1, changed_at = ?, claim = NULL, entries = 1, attempts = 1, error_class = 'retryable',
      error_code = 'unknown', error_message = 'Error: down', worker = NULL
    WHERE seq = ? AND claim = ?`)
  const record = db.prepare(`
    INSERT INTO ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, delay_ms, error_class, error_code,
      error, random, policy)
    VALUES (?, 1, 1, ?, ?, 'w', 'retry', 0, 'retryable', 'unknown', 'Error: down', 0.5, 'hash')`)
  const count = db.prepare(
    'UPDATE lane SET waiting = waiting - ?, running = running + ?, succeeded = succeeded + ? WHERE id = -1',
  )
  const token = 'claim-of-this'
  let running = []
  for (;;) {
    const claimed = inTransaction(db, () => {
      const now = Date.now()
      for (const { seq, attempts } of running) {
        if (failing > 0 && attempts === 0 && seq % failing === 0) {
          fail.run(now, seq, token)
          record.run(seq, now, now)
        } else succeed.run(now, now, attempts + 1, seq, token)
      }
      const rows = ready.all(BATCH)
      for (const { seq } of rows) claim.run(now, 'w', token, now, seq)
      count.run(rows.length, rows.length - running.length, running.length)
      return rows
    })
    if (claimed.length === 0) return
    for (const { payload } of claimed) JSON.parse(payload)
    running = claimed
  }
}

function inTransaction(db, work) {
  return db.transaction(work).immediate()
}
