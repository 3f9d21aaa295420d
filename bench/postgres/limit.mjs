// The upper limit of PostgreSQL itself: hand-written SQL, in batches, on the store's own schema, leaving the same rows
// behind.
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
    INSERT INTO redrive.task (id, lane, round, priority, submitted_at, started_at, changed_at, next_at, payload)
    SELECT id, -1, 0, 0, $3, $3, $3, $3, payload FROM unnest($1::text[], $2::text[]) AS given (id, payload)
    ON CONFLICT (id) DO NOTHING
    RETURNING id
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
    SELECT id, -1, 1, 0, $3, $3 FROM added
  )
  INSERT INTO redrive.tally (lane, waiting) SELECT -1, count(*) FROM added`

const idOf = n => `0192${String(n).padStart(18, '0')}`

export async function enqueue({ db }, count, batch = BATCH) {
  for (let first = 0; first < count; first += batch) {
    const ids = Array.from({ length: Math.min(batch, count - first) }, (_, n) => idOf(first + n))
    const payloads = ids.map(() => JSON.stringify({ n: 1 }))
    await db.query({ name: 'enqueue', text: ENQUEUE, values: [ids, payloads, Date.now()] })
  }
}

export async function enqueueOneByOne({ db }, count) {
  for (let n = 0; n < count; n++) {
    await db.query({ name: 'enqueue', text: ENQUEUE, values: [[idOf(n)], [JSON.stringify({ n: 1 })], Date.now()] })
  }
}

const CLAIM = /* sql */ `
  WITH taken AS (
    DELETE FROM redrive.waiting
    WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM redrive.waiting WHERE state = 1 AND lane = -1
      ORDER BY priority DESC, submitted_at, task LIMIT $1 FOR UPDATE SKIP LOCKED
    ))
    RETURNING task
  ), started AS MATERIALIZED (
    SELECT id, round, payload, attempts FROM taken JOIN redrive.task ON id = taken.task
  ), claimed AS (
    INSERT INTO redrive.claim (worker, at, tasks, rounds, unsettled)
    SELECT '${WORKER}', $2, array_agg(id), array_agg(round), count(*) FROM started HAVING count(*) > 0
  )
  SELECT * FROM started`

/** Deletes the only claim there is, since claimed work is settled at once. */
const UNCLAIM = 'DELETE FROM redrive.claim'

const SUCCEED = /* sql */ `
  WITH written AS (
    UPDATE redrive.task
    SET state = 4, round = task.round + 1, changed_at = $4, entries = entries + 1, attempts = 0,
      error_class = NULL, error_code = NULL, error_message = NULL, worker = '${WORKER}', ran_from = $4, ran_to = $4,
      ran_attempt = done.attempt
    FROM unnest($1::text[], $2::int[], $3::int[]) AS done (id, round, attempt)
    WHERE task.id = done.id AND task.round = done.round
    RETURNING task.id
  )
  INSERT INTO redrive.ended (state, at, tasks) SELECT 4, $4, array_agg(id) FROM written`

const FAIL = /* sql */ `
  WITH failed AS (
    UPDATE redrive.task
    SET round = task.round + 1, changed_at = $3, entries = 1, attempts = 1, error_class = 'retryable',
      error_code = 'unknown', error_message = 'Error: down'
    FROM unnest($1::text[], $2::int[]) AS done (id, round)
    WHERE task.id = done.id AND task.round = done.round
    RETURNING task.id, task.submitted_at
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
    SELECT id, -1, 1, 0, submitted_at, $3 FROM failed
  )
  INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, delay_ms, error_class,
    error_code, error, random, policy)
  SELECT id, 1, 1, $3, $3, '${WORKER}', 'retry', 0, 'retryable', 'unknown', 'Error: down', 0.5, '${POLICY}' FROM failed`

const COUNT = /* sql */ `
  INSERT INTO redrive.tally (lane, waiting, running, succeeded) VALUES (-1, $1, $2, $3)`

/** Drains the ready tasks; every `failing`th fails once, and is retried without a delay. */
export async function drain({ db }, _count, failing = 0) {
  let seen = 0
  let succeeded = []
  let failed = []
  for (;;) {
    const now = Date.now()
    await db.query('BEGIN')
    if (succeeded.length > 0) {
      const values = [...idsAndRounds(succeeded), succeeded.map(({ attempts }) => attempts + 1), now]
      await db.query({ name: 'succeed', text: SUCCEED, values })
    }
    if (failed.length > 0) await db.query({ name: 'fail', text: FAIL, values: [...idsAndRounds(failed), now] })
    await db.query({ name: 'unclaim', text: UNCLAIM })
    const { rows } = await db.query({ name: 'claim', text: CLAIM, values: [BATCH, now] })
    const ran = succeeded.length + failed.length
    const counts = [failed.length - rows.length, rows.length - ran, succeeded.length]
    await db.query({ name: 'count', text: COUNT, values: counts })
    await db.query('COMMIT')
    if (rows.length === 0) return

    succeeded = []
    failed = []
    for (const row of rows) {
      JSON.parse(row.payload)
      if (failing > 0 && row.attempts === 0 && ++seen % failing === 0) failed.push(row)
      else succeeded.push(row)
    }
  }
}

const idsAndRounds = rows => [rows.map(({ id }) => id), rows.map(({ round }) => round)]
