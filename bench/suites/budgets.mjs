// Measures the cost of budgets and limits for a drain, on SQLite and on PostgreSQL. By the clock on the wall.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median } from '../interleave.mjs'
import { isShort } from '../pipelines/short.mjs'
import * as onPostgres from '../postgres/redrive.mjs'
import { timeRounds } from '../postgres/rounds.mjs'
import { withServer } from '../postgres/server.mjs'
import * as onSqlite from '../tasks/redrive.mjs'

const [ROUNDS, TASKS, LANES] = isShort ? [1, 2000, 1000] : [7, 20_000, 10_000]
const CLAIMS = 20
const FAILURES = { failures: { share: 0.5 } }
/** Above the share that fails, so that no retry is held. */
const RETRIES = { retries: { share: 0.5 } }

/** One task in each of many lanes with keys, and then another. */
const keyed = (count, lanes, kind = 'work') =>
  Array.from({ length: count }, (_, n) => ({ kind, key: `tenant-${n % lanes}`, payload: '{"n":1}' }))

const draining = (open, prepare, failing = 0) => ({
  open,
  prepare,
  measured: store => onSqlite.drain(store, TASKS, failing),
})
const withBudget = budget => async store => {
  await store.budgets.set({ kind: 'work' }, budget)
  await onSqlite.enqueue(store, TASKS)
}
/** A drain without budgets, and with each sort of them. */
const drains = (open, failing) => ({
  'without a budget': draining(open, store => onSqlite.enqueue(store, TASKS), failing),
  'of failures': draining(open, withBudget(FAILURES), failing),
  'of retries': draining(open, withBudget(RETRIES), failing),
  'of both': draining(open, withBudget({ ...FAILURES, ...RETRIES }), failing),
})
const inLanes = store => store.enqueue(keyed(TASKS, LANES))
const inLimitedLanes = async store => {
  await store.limit({ kind: 'work' }, { concurrency: 5 })
  await inLanes(store)
}

/** Opens the gate of a kind that has a task in each of many lanes. */
async function behindGate(store) {
  await store.budgets.set({ kind: 'down' }, { failures: { share: 0.5, minAttempts: 1, holdMs: 3_600_000 } })
  await store.enqueue(keyed(LANES, LANES, 'down'))
  const rooms = [{ kinds: ['down'] }]
  const { tasks, now } = await store.claim({ worker: 'bench', leaseMs: 60_000, rooms, limit: 1, isIdle: false })
  const verdict = { class: 'retryable', code: 'http_503' }
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'bench', verdict }
  const outcome = { type: 'retry', delayMs: 0, isBackoff: true }
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome, attempt })))
}
const claiming = async store => {
  const rooms = [{ kinds: ['down', 'work'] }]
  for (let n = 0; n < CLAIMS; n++)
    await store.claim({ worker: 'bench', leaseMs: 60_000, rooms, limit: 10, isIdle: false })
}
const claims = (open, prepare) => ({ open, prepare, measured: claiming })

/** Seconds of contestants that take turns, each on a file of its own. The first round is the warm-up. */
async function timeOnSqlite(contestants, rounds = ROUNDS) {
  const times = Object.fromEntries(Object.keys(contestants).map(name => [name, []]))
  for (let round = 0; round <= rounds; round++) {
    for (const [name, { open, prepare, measured }] of Object.entries(contestants)) {
      const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
      const store = await open(join(folder, 'tasks.db'))
      await prepare(store)
      const start = performance.now()
      await measured(store)
      if (round > 0) times[name].push((performance.now() - start) / 1000)
      await store.close()
      rmSync(folder, { recursive: true })
    }
  }
  return times
}

/** The median of the ratios to the first contestant in the same round. */
function figure(title, times, max) {
  console.error(`  ${title}`)
  const [[, yardstick]] = Object.entries(times)
  const rows = Object.entries(times).map(([name, all]) => ({
    name,
    ms: median([...all]) * 1000,
    ratio: median(all.map((time, round) => time / yardstick[round])),
  }))
  const columns = [
    { key: 'ms', head: 'ms', digits: 0 },
    { key: 'ratio', head: '× without', digits: 2 },
  ]
  return { title, columns, rows, target: { row: rows.at(-1).name, key: 'ratio', max } }
}

async function figuresOf(name, open, time) {
  return [
    figure(`Drain of ${TASKS} tasks on ${name}, with budgets`, await time(drains(open, 0)), 1.05),
    figure(`… every fifth of which fails once, on ${name}`, await time(drains(open, 5)), 1.05),
    figure(
      `Drain of ${TASKS} tasks in ${LANES} lanes on ${name}, each with a limit`,
      await time({ 'without limits': draining(open, inLanes), 'with limits': draining(open, inLimitedLanes) }),
      1.1,
    ),
    figure(
      `${CLAIMS} claims that find nothing on ${name}, beside ${LANES} lanes behind an open gate`,
      await time({ 'an empty store': claims(open, () => {}), 'behind a gate': claims(open, behindGate) }),
      2,
    ),
  ]
}

const sqlite = await figuresOf('SQLite', onSqlite.open, timeOnSqlite)
const postgres = await withServer(server =>
  figuresOf('PostgreSQL', onPostgres.open, contestants => timeRounds(server, contestants, ROUNDS)),
)
console.log(JSON.stringify([...sqlite, ...postgres]))
