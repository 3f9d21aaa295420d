// Measures the lists and counts of an operator in a store with a million tasks: by status, kind, key, code and group, common
// and rare, and what could be deleted.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import pg from 'pg'
import { openPostgres } from '../../dist/store/postgres/index.js'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { median } from '../interleave.mjs'
import { isShort } from '../pipelines/short.mjs'
import { withServer } from '../postgres/server.mjs'

const TASKS = isShort ? 20_000 : 1_000_000
const LANES = isShort ? 100 : 10_000
const ROUNDS = 5
const MAX_MS = 200

/** Rare ones lie far apart, so a list of them cannot stop early. There are eleven, and all of them are dead. */
const RARE = 3 * Math.floor(TASKS / 30)

/**
 * Rows as the store writes them, made by hand since a million through the store would take long: two of three succeeded, the
 * third is dead. Every so many tasks one is of a rare kind, key or code.
 */
const kindOf = `CASE WHEN i % ${RARE} = 1 THEN 'rare' ELSE 'work' END`
const keyOf = `CASE WHEN i % ${RARE} = 4 THEN 'rare' ELSE 'tenant-' || (i % ${LANES}) END`
const codeOf = `CASE WHEN i % ${RARE} = 7 THEN 'rare' ELSE 'http_502' END`
const isDead = 'i % 3 = 1'
/** A hundred failure groups of each kind. */
const groupOf = `${kindOf} || '-' || (i % 100)`

/** Each with the number of tasks on its first page. */
const FILTERS = {
  'of all tasks': [{}, 50],
  'of dead letters': [{ status: 'dead' }, 50],
  'by kind': [{ status: 'dead', kind: 'work' }, 50],
  'by a rare kind': [{ status: 'dead', kind: 'rare' }, 11],
  'by key': [{ status: 'dead', key: 'tenant-7' }, isShort ? 50 : 34],
  'by a rare key': [{ status: 'dead', key: 'rare' }, 11],
  'by a rare key, in any status': [{ key: 'rare' }, 11],
  'by kind and rare key': [{ status: 'dead', kind: 'work', key: 'rare' }, 11],
  'by code': [{ status: 'dead', errorCode: 'http_502' }, 50],
  'by a rare code': [{ status: 'dead', errorCode: 'rare' }, 11],
  'by a code that nothing has': [{ errorCode: 'never' }, 0],
  'by a kind that nothing has': [{ kind: 'never' }, 0],
  'by group': [{ status: 'dead', group: 'work-4' }, 50],
  'of all tasks of a group': [{ group: 'work-4' }, 50],
}

/** Each with a check of its answer. */
const COUNTS = {
  'count of dead letters': [store => store.count({ status: 'dead' }), ({ dead }) => dead],
  'count by a code': [store => store.count({ status: 'dead', errorCode: 'http_502' }), ({ dead }) => dead],
  'count by kind and status': [store => store.countBy({}, ['kind', 'status']), sumOf],
  'count of dead letters by code': [store => store.countBy({ status: 'dead' }, ['errorCode']), sumOf],
  'count of dead letters by group': [store => store.countBy({ status: 'dead' }, ['group']), sumOf],
  'count of a group': [store => store.count({ status: 'dead', group: 'work-4' }), ({ dead }) => 100 * dead],
  'count by kind and group': [store => store.countBy({ status: 'dead' }, ['kind', 'group']), sumOf],
  'what could be deleted': [store => store.prunable({ endedMs: 1, deadMs: 1 }), ({ deadLetters }) => deadLetters],
}

/** These read every task that failed with a code, and have no target. */
const UNBOUND = new Set(['count by a code', 'count of dead letters by code'])

function sumOf(counts) {
  return counts.reduce((sum, { count }) => sum + count, 0)
}

function fillSqlite(path) {
  const db = new Database(path)
  db.pragma('synchronous = OFF')
  db.exec(`
    CREATE TEMP TABLE made AS
      WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${TASKS})
      SELECT i, ${kindOf} AS kind, ${keyOf} AS key FROM n;
    INSERT INTO lane (kind, category, key, paused, succeeded, dead)
      SELECT kind, '', key, 0, sum(NOT (${isDead})), sum(${isDead}) FROM made GROUP BY kind, key;
    INSERT INTO task (id, lane, state, priority, submitted_at, started_at, changed_at, entries, attempts, error_class,
                      error_code, error_message, failure_group, reason, payload)
      SELECT 'task-' || i, lane.id, CASE WHEN ${isDead} THEN 6 ELSE 4 END, 0, i / 100, i / 100, i / 100, 1, 1,
             CASE WHEN ${isDead} THEN 'retryable' END, CASE WHEN ${isDead} THEN ${codeOf} END,
             CASE WHEN ${isDead} THEN 'status 502' END, CASE WHEN ${isDead} THEN ${groupOf} END,
             CASE WHEN ${isDead} THEN 'attempts_exhausted' END, '{}'
      FROM made JOIN lane ON lane.kind = made.kind AND lane.category = '' AND lane.key = made.key;
    INSERT INTO failure_group (id, kind, code, error_name, pattern, frames, first_seen)
      SELECT DISTINCT failure_group, lane.kind, 'http_502', 'Error', 'status 502', '[]', 0
      FROM task JOIN lane ON lane.id = task.lane WHERE failure_group IS NOT NULL;
    INSERT INTO group_tally (failure_group, hour, seen, retrying, dead, last_seen)
      SELECT failure_group, 1, count(*), 0, count(*), 1 FROM task WHERE failure_group IS NOT NULL GROUP BY failure_group;
    ANALYZE;
    PRAGMA wal_checkpoint(TRUNCATE)`)
  db.close()
}

async function fillPostgres(pool) {
  await pool.query(`
    CREATE TEMP TABLE made AS SELECT i, ${kindOf} AS kind, ${keyOf} AS key FROM generate_series(1, ${TASKS}) AS i;
    INSERT INTO redrive.lane (id, kind, category, key, paused)
      SELECT row_number() OVER (), kind, '', key, false FROM (SELECT DISTINCT kind, key FROM made) AS named;
    INSERT INTO redrive.task (id, lane, state, priority, submitted_at, started_at, changed_at, entries, attempts,
        error_class, error_code, error_message, failure_group, failure_state, failure_at, reason, payload)
      SELECT 'task-' || i, lane.id, CASE WHEN ${isDead} THEN 6 ELSE 4 END, 0, i / 100, i / 100, i / 100, 1, 1,
        CASE WHEN ${isDead} THEN 'retryable' END, CASE WHEN ${isDead} THEN ${codeOf} END,
        CASE WHEN ${isDead} THEN 'status 502' END, CASE WHEN ${isDead} THEN ${groupOf} END, CASE WHEN ${isDead} THEN 6 END,
        CASE WHEN ${isDead} THEN i / 100 END, CASE WHEN ${isDead} THEN 'attempts_exhausted' END, '{}'
      FROM made JOIN redrive.lane USING (kind, key);
    INSERT INTO redrive.ended (state, at, tasks, task_lanes)
      SELECT state, changed_at, array_agg(id), array_agg(DISTINCT lane) FROM redrive.task GROUP BY state, changed_at;
    INSERT INTO redrive.failure_group (id, kind, code, error_name, pattern, frames, first_seen)
      SELECT DISTINCT failure_group, lane.kind, 'http_502', 'Error', 'status 502', '[]', 0
      FROM redrive.task JOIN redrive.lane ON lane.id = task.lane WHERE failure_group IS NOT NULL;
    INSERT INTO redrive.group_tally (failure_group, hour, seen, dead, last_seen)
      SELECT failure_group, 1, count(*), count(*), 1 FROM redrive.task WHERE failure_group IS NOT NULL GROUP BY failure_group;
    INSERT INTO redrive.tally (lane, succeeded, dead)
      SELECT lane, count(*) FILTER (WHERE state = 4), count(*) FILTER (WHERE state = 6) FROM redrive.task GROUP BY lane`)
  await pool.query('VACUUM ANALYZE')
}

/** The median time of each list and count, in milliseconds. */
async function timeAll(store) {
  const rows = []
  const time = async (name, read, isRight) => {
    const times = []
    for (let round = 0; round <= ROUNDS; round++) {
      const start = performance.now()
      const answer = await read()
      if (!isRight(answer)) throw new Error(`A wrong answer: ${name}.`)
      if (round > 0) times.push(performance.now() - start)
    }
    rows.push({ name, ms: median(times) })
  }
  for (const [name, [filter, expected]] of Object.entries(FILTERS)) {
    const read = () => store.list(filter, { limit: 50 })
    await time(`list ${name}`, read, ({ items }) => items.length === expected)
  }
  for (const [name, [read, countIn]] of Object.entries(COUNTS))
    await time(
      name,
      () => read(store),
      answer => countIn(answer) > TASKS / 4,
    )
  return rows
}

async function onSqlite() {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
  const path = join(folder, 'redrive.db')
  try {
    await (await openSqlite(path)).close()
    fillSqlite(path)
    const store = await openSqlite(path)
    const rows = await timeAll(store)
    await store.close()
    return rows
  } finally {
    rmSync(folder, { recursive: true })
  }
}

const onPostgres = () =>
  withServer(async server => {
    const pool = new pg.Pool({ connectionString: await server.createDatabase(), max: 1 })
    const store = await openPostgres(pool, { listen: false })
    await fillPostgres(pool)
    const rows = await timeAll(store)
    await store.close()
    await pool.end()
    return rows
  })

const figures = []
for (const [where, run] of Object.entries({ SQLite: onSqlite, PostgreSQL: onPostgres })) {
  console.error(`  filling ${where}`)
  const rows = await run()
  const slowest = rows.filter(({ name }) => !UNBOUND.has(name)).reduce((a, b) => (a.ms > b.ms ? a : b))
  figures.push({
    title: `Lists of 50 and counts of ${TASKS.toLocaleString('en').replaceAll(',', ' ')} tasks on ${where}`,
    columns: [{ key: 'ms', head: 'ms', digits: 1 }],
    rows,
    target: { row: slowest.name, key: 'ms', max: MAX_MS },
  })
}
console.log(JSON.stringify(figures))
