// Redriving many dead letters, and planning it, on both databases. By the clock on the wall, since a disk is in it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { planOperation, redriveDeadLetters } from '../../dist/operate/index.js'
import { openPostgres } from '../../dist/store/postgres/index.js'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { withServer } from '../postgres/server.mjs'

const isShort = process.env.REDRIVE_BENCH_SHORT === '1'
const LETTERS = isShort ? 10_000 : 100_000
const MANY = isShort ? 100_000 : 1_000_000
const ROUNDS = 3
const BATCH = 500
const BY = { who: 'bench', why: 'it is back' }

/** Dead letters of five kinds, as a worker leaves them, in batches that died together. */
async function fill(store, count) {
  const verdict = { class: 'retryable', code: 'http_502' }
  const outcome = { type: 'dead', reason: 'attempts_exhausted' }
  for (let first = 0; first < count; first += BATCH) {
    const now = Date.now()
    const attempt = { attempt: 3, startedAt: now, endedAt: now, worker: 'w', verdict, error: 'Error: Bad gateway' }
    const tried = { outcome, attempt }
    await store.enqueue(Array.from({ length: BATCH }, (_, n) => ({ kind: `k${n % 5}`, payload: '{"n":1}', tried })))
  }
}

/** The same by hand, on the store's own tables: pick, update, queue and record 500 at a time. */
function sqliteByHand(path) {
  const db = new Database(path)
  db.pragma('synchronous = FULL')
  const pick = db.prepare(`
    SELECT seq, lane, entries FROM task INDEXED BY task_ended
    WHERE state = 6 AND state > 3 AND lane < 1099511627776 ORDER BY changed_at LIMIT ?`)
  const move = db.prepare(`
    UPDATE task SET state = 1, changed_at = ?, next_at = ?, started_at = ?, entries = entries + 1, attempts = 0,
      deferrals = 0, previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL, reason = NULL
    WHERE seq = ?`)
  const record = db.prepare(`
    INSERT INTO ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason)
    VALUES (?, ?, 0, ?, ?, ?, 'redriven', ?)`)
  const count = db.prepare('UPDATE lane SET dead = dead - 1, waiting = waiting + 1 WHERE id = ?')
  const step = db.transaction(() => {
    const now = Date.now()
    const rows = pick.all(BATCH)
    for (const { seq, lane, entries } of rows) {
      move.run(now, now, now, seq)
      record.run(seq, entries + 1, now, now, BY.who, BY.why)
      count.run(lane)
    }
    return rows.length
  })
  while (step.immediate() > 0);
  db.close()
}

const BY_HAND = /* sql */ `
  WITH picked AS (
    DELETE FROM redrive.ended WHERE ctid IN (
      SELECT ctid FROM redrive.ended WHERE state = 6 ORDER BY at LIMIT 1) RETURNING tasks
  ), moved AS (
    UPDATE redrive.task SET state = 3, round = round + 1, started_at = $1, changed_at = $1, entries = entries + 1,
      attempts = 0, deferrals = 0, previous_delay = NULL, error_class = NULL, error_code = NULL, error_message = NULL,
      reason = NULL
    WHERE id IN (SELECT unnest(tasks) FROM picked) RETURNING id, lane, entries, priority, submitted_at
  ), queued AS (
    INSERT INTO redrive.waiting (task, lane, state, priority, submitted_at, next_at)
    SELECT id, lane, 1, priority, submitted_at, $1 FROM moved
  ), recorded AS (
    INSERT INTO redrive.ledger (task, sequence, attempt, started_at, ended_at, worker, outcome, reason, category)
    SELECT id, entries, 0, $1, $1, $2, 'redriven', $3, '' FROM moved
  ), tallied AS (
    INSERT INTO redrive.tally (lane, dead, waiting) SELECT lane, -count(*), count(*) FROM moved GROUP BY lane
  )
  SELECT count(*)::int AS count FROM moved`

async function postgresByHand(url) {
  const db = new pg.Client(url)
  await db.connect()
  while ((await db.query({ name: 'move', text: BY_HAND, values: [Date.now(), BY.who, BY.why] })).rows[0].count > 0);
  await db.end()
}

async function timed(work) {
  const start = performance.now()
  await work()
  return (performance.now() - start) / 1000
}

/** Letters per second of a redrive by hand and by an operation, each round on stores of their own. */
async function rates(newStore) {
  const times = { hand: [], redrive: [] }
  for (let round = 0; round < ROUNDS; round++) {
    for (const name of Object.keys(times)) {
      const { open, byHand, remove } = await newStore()
      const store = await open()
      await fill(store, LETTERS)
      if (name === 'redrive') times.redrive.push(await timed(() => redriveDeadLetters(store, { all: true }, BY)))
      await store.close()
      if (name === 'hand') times.hand.push(await timed(byHand))
      await remove()
    }
  }
  const median = values => values.sort((a, b) => a - b)[values.length >> 1]
  return { hand: LETTERS / median(times.hand), redrive: LETTERS / median(times.redrive) }
}

function redriveFigure(where, { hand, redrive }) {
  return {
    title: `Redrive of ${LETTERS} dead letters without a rate, on ${where}`,
    columns: [
      { key: 'rate', head: 'letters per second', digits: 0 },
      { key: 'share', head: '× by hand', digits: 2 },
    ],
    rows: [
      { name: 'SQL by hand, batched, with ledger rows', rate: hand, share: 1 },
      { name: 'redrive', rate: redrive, share: redrive / hand },
    ],
    target: { row: 'redrive', key: 'share', min: 0.5 },
  }
}

async function planFigure(where, store) {
  await fill(store, MANY)
  const times = []
  for (let round = 0; round < ROUNDS; round++)
    times.push(await timed(() => planOperation(store, 'redrive', { filter: { errorCode: 'http_502' } })))
  return {
    title: `Plan over ${MANY} dead letters, on ${where}`,
    columns: [{ key: 'seconds', head: 'seconds', digits: 2 }],
    rows: [{ name: 'redrive', seconds: times.sort((a, b) => a - b)[ROUNDS >> 1] }],
    target: { row: 'redrive', key: 'seconds', max: 1 },
  }
}

const figures = []
const newSqlite = async () => {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const path = join(folder, 'tasks.db')
  const remove = () => rmSync(folder, { recursive: true })
  return { open: () => openSqlite(path), byHand: () => sqliteByHand(path), remove }
}
figures.push(redriveFigure('SQLite', await rates(newSqlite)))
const large = await newSqlite()
const store = await large.open()
figures.push(await planFigure('SQLite', store))
await store.close()
await large.remove()

await withServer(async server => {
  const newPostgres = async () => {
    const url = await server.createDatabase()
    return { open: () => openPostgres(url, { listen: false }), byHand: () => postgresByHand(url), remove: () => {} }
  }
  figures.push(redriveFigure('PostgreSQL', await rates(newPostgres)))
  const { open } = await newPostgres()
  const store = await open()
  figures.push(await planFigure('PostgreSQL', store))
  await store.close()
})

console.log(JSON.stringify(figures))
