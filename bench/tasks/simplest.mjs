// A queue in the simplest schema that keeps a row for each task and a row for each attempt: neither lanes, priorities,
// fences, results nor counts. The least that a queue with a ledger costs on SQLite, whatever else it can do.
import Database from 'better-sqlite3'

const BATCH = 500

const SCHEMA = /* sql */ `
  CREATE TABLE task (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, state INTEGER NOT NULL, due_at INTEGER NOT NULL, attempts INTEGER NOT NULL,
    worker TEXT, payload TEXT NOT NULL
  ) STRICT;
  CREATE INDEX task_due ON task (kind, due_at) WHERE state = 0;
  CREATE TABLE attempt (
    task INTEGER NOT NULL, number INTEGER NOT NULL, worker TEXT NOT NULL, started_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL, outcome TEXT NOT NULL, error TEXT, PRIMARY KEY (task, number)
  ) STRICT, WITHOUT ROWID;`

export function open(path) {
  const db = new Database(path)
  db.pragma('journal_mode = WAL')
  db.pragma('synchronous = FULL')
  db.exec(SCHEMA)
  return db
}

export function enqueue(db, count, batch = BATCH) {
  const insert = db.prepare(`INSERT INTO task VALUES (?, 'work', 0, ?, 0, NULL, ?)`)
  for (let first = 0; first < count; first += batch) {
    db.transaction(() => {
      const now = Date.now()
      for (let n = first; n < Math.min(first + batch, count); n++)
        insert.run(`0192${String(n).padStart(18, '0')}`, now, JSON.stringify({ n: 1 }))
    }).immediate()
  }
}

/** Drains the tasks; every `failing`th fails once, and is retried without a delay. */
export function drain(db, failing = 0) {
  const { ready, claim, succeed, fail, record } = statements(db)
  const end = ({ seq, attempts }, now) => {
    const hasFailed = failing > 0 && attempts === 0 && seq % failing === 0
    if (hasFailed) fail.run(now, seq, 'w')
    else succeed.run(seq, 'w')
    record.run(seq, attempts + 1, now, now, hasFailed ? 'retry' : 'succeeded', hasFailed ? 'Error: down' : null)
  }
  let running = []
  do {
    db.transaction(() => {
      const now = Date.now()
      for (const task of running) end(task, now)
      running = ready.all(now, BATCH)
      for (const { seq } of running) claim.run(seq)
    }).immediate()
    for (const { payload } of running) JSON.parse(payload)
  } while (running.length > 0)
}

function statements(db) {
  return {
    ready: db.prepare(`
      SELECT rowid AS seq, id, payload, attempts FROM task WHERE state = 0 AND kind = 'work' AND due_at <= ?
      ORDER BY due_at LIMIT ?`),
    claim: db.prepare(`UPDATE task SET state = 1, worker = 'w' WHERE rowid = ?`),
    succeed: db.prepare(
      'UPDATE task SET state = 2, attempts = attempts + 1 WHERE rowid = ? AND state = 1 AND worker = ?',
    ),
    fail: db.prepare(`
      UPDATE task SET state = 0, due_at = ?, attempts = attempts + 1 WHERE rowid = ? AND state = 1 AND worker = ?`),
    record: db.prepare(`INSERT INTO attempt VALUES (?, ?, 'w', ?, ?, ?, ?)`),
  }
}
