// What PostgreSQL itself allows: SQL written by hand, in batches, on the store's own schema, leaving the same rows behind.
import pg from 'pg'
import { openPostgres } from '../../dist/store/postgres/index.js'

const BATCH = 500
const WORKER = 'machine-12345-0123abcd'
const POLICY = 'd7f0338bcfb4615240f15617ad0fbec388174b7bc82c07a0a688bc0a413f3f55'

/** An empty store, opened with nothing but the driver. */
export async function open(url) {
  await (await openPostgres(url)).close()
  const db = new pg.Client(url)
  await db.connect()
  await db.query(`INSERT INTO redrive.lane (id, kind, category, key, paused) VALUES (-1, 'work', '', '', false)`)
  return { db, close: () => db.end() }
}

const ENQUEUE = /* sql */ `
  WITH added AS (
    INSERT INTO redrive.task (id, lane, state, priority, submitted_at, started_at, changed_at, next_at, payload)
    SELECT id, -1, 1, 0, $3, $3, $3, $3, payload FROM unnest($1::text[], $2::text[]) AS given (id, payload)
    ON CONFLICT (id) DO NOTHING
    RETURNING id
  )
  INSERT INTO redrive.tally (lane, waiting) SELECT -1, count(*) FROM added`

export async function enqueue({ db }, count) {
  for (let first = 0; first < count; first += BATCH) {
    const ids = Array.from({ length: BATCH }, (_, n) => `0192-${String(first + n).padStart(31, '0')}`)
    const payloads = ids.map(() => JSON.stringify({ n: 1 }))
    await db.query({ name: 'enqueue', text: ENQUEUE, values: [ids, payloads, Date.now()] })
  }
}

const CLAIM = /* sql */ `
  UPDATE redrive.task
  SET state = 3, changed_at = $2, next_at = NULL, worker = '${WORKER}', token = $3, ran_from = $2
  WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM redrive.task WHERE state = 1 AND lane = -1
    ORDER BY priority DESC, submitted_at, id LIMIT $1 FOR UPDATE SKIP LOCKED
  ))
  RETURNING id, payload, attempts`

const SUCCEED = /* sql */ `
  UPDATE redrive.task
  SET state = 4, changed_at = $3, token = NULL, entries = entries + 1, attempts = 0, error_class = NULL,
    error_code = NULL, error_message = NULL, ran_to = $3, ran_attempt = done.attempt
  FROM unnest($1::text[], $2::int[]) AS done (id, attempt)
  WHERE task.id = done.id AND task.token = $4`

const FAIL = /* sql */ `
  WITH failed AS (
    UPDATE redrive.task
    SET state = 1, changed_at = $2, next_at = $2, token = NULL, entries = 1, attempts = 1, error_class = 'retryable',
      error_code = 'unknown', error_message = 'Error: down', worker = NULL, ran_from = NULL
    WHERE id = ANY ($1::text[]) AND token = $3
    RETURNING id
  )
  INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, delay_ms, error_class,
    error_code, error, random, policy)
  SELECT id, 1, 1, $2, $2, '${WORKER}', 'retry', 0, 'retryable', 'unknown', 'Error: down', 0.5, '${POLICY}' FROM failed`

const COUNT = /* sql */ `
  INSERT INTO redrive.tally (lane, waiting, running, succeeded) VALUES (-1, $1, $2, $3)`

/** Drains the ready tasks; every `failing`th fails once, and is retried without a delay. */
export async function drain({ db }, _count, failing = 0) {
  const token = 'token-of-this-claim'
  let seen = 0
  let succeeded = []
  let failed = []
  for (;;) {
    const now = Date.now()
    await db.query('BEGIN')
    if (succeeded.length > 0) {
      const values = [succeeded.map(({ id }) => id), succeeded.map(({ attempts }) => attempts + 1), now, token]
      await db.query({ name: 'succeed', text: SUCCEED, values })
    }
    if (failed.length > 0) await db.query({ name: 'fail', text: FAIL, values: [failed, now, token] })
    const { rows } = await db.query({ name: 'claim', text: CLAIM, values: [BATCH, now, token] })
    const ran = succeeded.length + failed.length
    const counts = [failed.length - rows.length, rows.length - ran, succeeded.length]
    await db.query({ name: 'count', text: COUNT, values: counts })
    await db.query('COMMIT')
    if (rows.length === 0) return

    succeeded = []
    failed = []
    for (const row of rows) {
      JSON.parse(row.payload)
      if (failing > 0 && row.attempts === 0 && ++seen % failing === 0) failed.push(row.id)
      else succeeded.push(row)
    }
  }
}
