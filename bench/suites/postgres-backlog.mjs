// Measures the cost of a claim on PostgreSQL with a large backlog in the table, and after much work has passed through
// it.
import pg from 'pg'
import { median } from '../interleave.mjs'
import * as redrive from '../postgres/redrive.mjs'
import { query, settleDown } from '../postgres/rounds.mjs'
import { withServer } from '../postgres/server.mjs'

const ROUNDS = 5
const TASKS = 5000
const MILLION = 1_000_000
const IN_A_DAY = Date.now() + 86_400_000

async function fill(store, count, of) {
  for (let first = 0; first < count; first += 10_000) {
    await store.enqueue(Array.from({ length: Math.min(10_000, count - first) }, (_, n) => of(first + n)))
  }
}

/** Holds a lane, as a rate limit does. */
async function hold(store, category) {
  await store.enqueue([{ kind: 'work', category, payload: '{}' }])
  const { tasks, now } = await store.claim({ ...REQUEST, categories: [category] })
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: REQUEST.worker }
  await store.settle(
    tasks.map(({ id, token }) => ({ id, token, outcome: { type: 'deferred', delayMs: 86_400_000 }, attempt })),
  )
}

const EMPTY = 'an empty table'
const BACKLOGS = {
  [EMPTY]: () => {},
  '1 000 000 retries that are not due yet': store =>
    fill(store, MILLION, n => ({ kind: 'work', payload: '{}', runAt: IN_A_DAY + n })),
  '100 000 tasks in a lane that is held': async store => {
    await hold(store, 'old')
    await fill(store, 100_000, () => ({ kind: 'work', category: 'old', payload: '{}' }))
  },
  '100 lanes with keys, one with 1 000 000 tasks': async store => {
    await fill(store, MILLION, () => ({ kind: 'work', key: 'tenant-0', payload: '{}' }))
    // Enough that none is empty before the last round.
    await fill(store, 99_000, n => ({ kind: 'work', key: `tenant-${1 + (n % 99)}`, payload: '{}' }))
  },
}
const LIMITS = [1.2, 1.2, 1.5]

const REQUEST = { worker: 'bench', leaseMs: 60_000, rooms: [{ kinds: ['work'] }], limit: 100, isIdle: false }

/** Milliseconds to claim and settle the tasks, in batches of 100, beside what is there already. */
async function claimAndSettle(store) {
  await redrive.enqueue(store, TASKS)
  const start = performance.now()
  for (let done = 0; done < TASKS; ) {
    const { tasks, now } = await store.claim(REQUEST)
    if (tasks.length === 0) throw new Error('There is nothing to claim.')
    const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: REQUEST.worker }
    await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome: { type: 'succeeded' }, attempt })))
    done += tasks.length
  }
  return performance.now() - start
}

/** Times of stores that take turns. The first round is the warm-up. */
async function timeInTurns(stores) {
  const times = Object.fromEntries(Object.keys(stores).map(name => [name, []]))
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, store] of Object.entries(stores)) {
      const time = await claimAndSettle(store)
      if (round > 0) times[name].push(time)
    }
  }
  return times
}

/** A figure of each row but the first, beside the first. */
function figures(titleOf, times, limits) {
  const [[first, yardstick], ...others] = Object.entries(times)
  const row = (name, all) => ({
    name,
    micros: (median(all) * 1000) / TASKS,
    ratio: median(all.map((time, round) => time / yardstick[round])),
  })
  const columns = [
    { key: 'micros', head: 'µs per task', digits: 1 },
    { key: 'ratio', head: `× ${first}`, digits: 2 },
  ]
  return others.map(([name, all], index) => ({
    title: titleOf(name),
    columns,
    rows: [row(first, yardstick), row(name, all)],
    ...(limits[index] && { target: { row: name, key: 'ratio', max: limits[index] } }),
  }))
}

async function beside(server) {
  const stores = {}
  for (const [name, prepare] of Object.entries(BACKLOGS)) {
    console.error(`  filling: ${name}`)
    const url = await server.createDatabase()
    stores[name] = await redrive.open(url)
    await prepare(stores[name])
    // As the server does by itself, sooner or later.
    await query(url, 'VACUUM ANALYZE')
  }
  await settleDown(server)
  const times = await timeInTurns(stores)
  for (const store of Object.values(stores)) await store.close()
  return figures(name => `Claim and settle beside ${name}, on PostgreSQL`, times, LIMITS)
}

/**
 * Twenty times what the table holds passes through it while an old snapshot keeps the server from cleaning up; then the
 * snapshot ends, and the server vacuums.
 */
async function afterwards(server) {
  console.error('  passing 100 000 tasks through a table, with an old snapshot held')
  const fresh = await redrive.open(await server.createDatabase())
  const url = await server.createDatabase()
  const used = await redrive.open(url)
  const reader = new pg.Client(url)
  await reader.connect()
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM redrive.task')
  for (let pass = 0; pass < 20; pass++) {
    await claimAndSettle(used)
    await used.prune({ endedMs: 0 }, TASKS)
  }
  const held = await timeInTurns({ 'a new table': fresh, 'a table whose dead rows cannot be removed': used })
  await reader.end()
  await query(url, 'VACUUM ANALYZE')
  await settleDown(server)
  const times = await timeInTurns({ 'a new table': fresh, 'a table that 20 times its size has passed through': used })
  await fresh.close()
  await used.close()
  const titleOf = name => `Claim and settle in ${name}`
  return [...figures(titleOf, held, []), ...figures(titleOf, times, [1.2])]
}

console.log(
  JSON.stringify(await withServer(async server => [...(await beside(server)), ...(await afterwards(server))])),
)
