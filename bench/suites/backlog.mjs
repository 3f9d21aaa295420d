// Measures the cost of a claim with a large backlog in the table, and how soon work starts.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import * as redrive from '../tasks/redrive.mjs'

const ROUNDS = 5
const TASKS = 5000
const MILLION = 1_000_000

/** Rows that were there before, written by hand: a million through the store would take the rest of the day. */
function addRows(path, count, { lane = '-2', state, nextAt = 'NULL' }) {
  const db = new Database(path)
  db.exec(`
    INSERT INTO task (id, lane, state, priority, submitted_at, started_at, changed_at, next_at, payload)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ${count})
    SELECT 'backlog-' || i, ${lane}, ${state}, 0, 1, 1, 1, ${nextAt}, '{}' FROM n;
    PRAGMA wal_checkpoint(TRUNCATE)`)
  db.close()
}

function addLanes(path, rows) {
  const db = new Database(path)
  const insert = db.prepare('INSERT INTO lane (id, kind, category, key, paused, held_until) VALUES (?, ?, ?, ?, 0, ?)')
  for (const row of rows) insert.run(...row)
  db.close()
}

const inADay = Date.now() + 86_400_000
const laneRows = Array.from({ length: 100 }, (_, n) => [n + 1, 'work', '', `tenant-${n + 1}`, 0])

const BACKLOGS = {
  'an empty table': () => {},
  '1 000 000 retries that are not due yet': path => {
    addLanes(path, [[-2, 'work', 'old', '', 0]])
    addRows(path, MILLION, { state: 0, nextAt: `${inADay} + i` })
  },
  '100 000 tasks in a lane that is held': path => {
    addLanes(path, [[-2, 'work', 'old', '', inADay]])
    addRows(path, 100_000, { state: 1 })
  },
  '100 lanes with keys, one with 1 000 000 tasks': path => {
    addLanes(path, laneRows)
    addRows(path, MILLION, { state: 1, lane: '1' })
    addOthers(path)
  },
}

/** A few tasks in each of the other lanes. */
function addOthers(path) {
  const db = new Database(path)
  db.exec(`
    INSERT INTO task (id, lane, state, priority, submitted_at, started_at, changed_at, payload)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9900)
    SELECT 'other-' || i, 2 + i % 99, 1, 0, 1, 1, 1, '{}' FROM n`)
  db.close()
}

/** Milliseconds to claim and settle the tasks, in batches of 100, beside what is there already. */
async function claimAndSettle(store) {
  const request = { worker: 'bench', leaseMs: 60_000, rooms: [{ kinds: ['work'] }], limit: 100, isIdle: false }
  const start = performance.now()
  for (let done = 0; done < TASKS; ) {
    const { tasks, now } = await store.claim(request)
    if (tasks.length === 0) throw new Error('There is nothing to claim.')
    await store.settle(
      tasks.map(({ id, token }) => ({
        id,
        token,
        outcome: { type: 'succeeded' },
        attempt: { attempt: 1, startedAt: now, endedAt: now, worker: 'bench' },
      })),
    )
    done += tasks.length
  }
  return performance.now() - start
}

const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
const stores = {}
for (const [name, fill] of Object.entries(BACKLOGS)) {
  console.error(`  filling: ${name}`)
  const path = join(folder, `${Object.keys(stores).length}.db`)
  await (await redrive.open(path)).close()
  fill(path)
  stores[name] = await redrive.open(path)
}

const times = Object.fromEntries(Object.keys(stores).map(name => [name, []]))
for (let round = 0; round <= ROUNDS; round++) {
  for (const [name, store] of Object.entries(stores)) {
    await redrive.enqueue(store, TASKS)
    const time = await claimAndSettle(store)
    if (round > 0) times[name].push(time)
  }
}
for (const store of Object.values(stores)) await store.close()
rmSync(folder, { recursive: true })

const median = values => [...values].sort((a, b) => a - b)[values.length >> 1]
const empty = median(times['an empty table'])
const rows = Object.entries(times).map(([name, all]) => ({
  name,
  micros: (median(all) * 1000) / TASKS,
  ratio: median(all) / empty,
}))
const columns = [
  { key: 'micros', head: 'µs per task', digits: 1 },
  { key: 'ratio', head: '× empty', digits: 2 },
]
const limits = { 1: 1.2, 2: 1.2, 3: 1.5 }
console.log(
  JSON.stringify(
    Object.entries(limits).map(([index, max]) => ({
      title: `Claim and settle beside ${rows[index].name}`,
      columns,
      rows: [rows[0], rows[index]],
      target: { row: rows[index].name, key: 'ratio', max },
    })),
  ),
)
