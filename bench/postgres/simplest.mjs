// A queue in the simplest schema that keeps a row for each task and a row for each attempt: neither lanes, priorities,
// fences, results nor counts. The least that a queue with a ledger costs on PostgreSQL, whatever else it can do.
import pg from 'pg'

const BATCH = 500

const SCHEMA = /* sql */ `
  CREATE TABLE task (
    id uuid PRIMARY KEY, kind text NOT NULL, state smallint NOT NULL, due_at bigint NOT NULL, attempts int NOT NULL,
    worker text, payload text NOT NULL
  );
  CREATE INDEX task_due ON task (kind, due_at) WHERE state = 0;
  CREATE TABLE attempt (
    task uuid NOT NULL, number int NOT NULL, worker text NOT NULL, started_at bigint NOT NULL, ended_at bigint NOT NULL,
    outcome text NOT NULL, error text, PRIMARY KEY (task, number)
  )`

export async function open(url) {
  const db = new pg.Client(url)
  await db.connect()
  await db.query(SCHEMA)
  return { db, close: () => db.end() }
}

/** In the order of their numbers, as ids that are ordered by time are. */
const idOf = n => `01920000-0000-7000-8000-${n.toString(16).padStart(12, '0')}`

const ENQUEUE = /* sql */ `
  INSERT INTO task (id, kind, state, due_at, attempts, payload)
  SELECT id, 'work', 0, $3, 0, payload FROM unnest($1::uuid[], $2::text[]) AS given (id, payload)`

export async function enqueue({ db }, count, batch = BATCH) {
  for (let first = 0; first < count; first += batch) {
    const ids = Array.from({ length: Math.min(batch, count - first) }, (_, n) => idOf(first + n))
    const payloads = ids.map(() => JSON.stringify({ n: 1 }))
    await db.query({ name: 'enqueue', text: ENQUEUE, values: [ids, payloads, Date.now()] })
  }
}

const ADD = `INSERT INTO task (id, kind, state, due_at, attempts, payload) VALUES ($1, 'work', 0, $2, 0, $3)`

export async function enqueueOneByOne({ db }, count) {
  for (let n = 0; n < count; n++) {
    await db.query({ name: 'add', text: ADD, values: [idOf(n), Date.now(), JSON.stringify({ n: 1 })] })
  }
}

const CLAIM = /* sql */ `
  UPDATE task SET state = 1, worker = 'w'
  WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM task WHERE kind = 'work' AND state = 0 AND due_at <= $2
    ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
  ))
  RETURNING id, payload, attempts`

const SUCCEED = /* sql */ `
  WITH ended AS (
    UPDATE task SET state = 2, attempts = attempts + 1 FROM unnest($1::uuid[]) AS done (id)
    WHERE task.id = done.id AND state = 1 AND worker = 'w'
    RETURNING task.id, attempts
  )
  INSERT INTO attempt SELECT id, attempts, 'w', $2, $2, 'succeeded', NULL FROM ended`

const FAIL = /* sql */ `
  WITH ended AS (
    UPDATE task SET state = 0, due_at = $2, attempts = attempts + 1 FROM unnest($1::uuid[]) AS done (id)
    WHERE task.id = done.id AND state = 1 AND worker = 'w'
    RETURNING task.id, attempts
  )
  INSERT INTO attempt SELECT id, attempts, 'w', $2, $2, 'retry', 'Error: down' FROM ended`

/** Drains the tasks; every `failing`th fails once, and is retried without a delay. */
export async function drain({ db }, _count, failing = 0) {
  const settle = (name, text, ids, now) => ids.length > 0 && db.query({ name, text, values: [ids, now] })
  let seen = 0
  let succeeded = []
  let failed = []
  for (;;) {
    const now = Date.now()
    await db.query('BEGIN')
    await settle('succeed', SUCCEED, succeeded, now)
    await settle('fail', FAIL, failed, now)
    const { rows } = await db.query({ name: 'claim', text: CLAIM, values: [BATCH, now] })
    await db.query('COMMIT')
    if (rows.length === 0) return

    succeeded = []
    failed = []
    for (const { id, payload, attempts } of rows) {
      JSON.parse(payload)
      const hasFailed = failing > 0 && attempts === 0 && ++seen % failing === 0
      ;(hasFailed ? failed : succeeded).push(id)
    }
  }
}
