import pg from 'pg'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { freshDatabase } from '../services/fresh-database.js'
import { Scene, until } from './scene.js'

const CONCURRENCY = 4

let scene: Scene
let admin: pg.Client
beforeEach(async () => {
  const url = await freshDatabase()
  admin = new pg.Client(url)
  await admin.connect()
  scene = await Scene.on(url)
})
afterEach(async () => {
  await scene.close()
  await admin.end()
})

/** A claim that began before the gate opened starts its tasks behind it. */
const CLAIMS = `
  SELECT FROM pg_stat_activity
  WHERE datname = current_database() AND state = 'active' AND query LIKE 'SELECT redrive.claim(%'`

const gate = async () => (await scene.store.budgets.list())[0]?.gate

/** How many writes have started and how many holds there were, once the gate holds and nothing runs. */
async function account(minHolds = 1): Promise<{ readonly starts: number; readonly holds: number }> {
  let found = { starts: 0, holds: 0 }
  await until(`the gate holds for the ${minHolds}. time, and nothing runs`, async () => {
    const before = await gate()
    if (before?.state !== 'open' || before.holds < minHolds) return false
    if ((await admin.query(CLAIMS)).rowCount !== 0) return false
    if ((await scene.store.count({})).running > 0) return false
    found = { starts: scene.starts().filter(({ id }) => id !== echo).length, holds: before.holds }
    const after = await gate()
    return after?.state === 'open' && after.holds === before.holds
  })
  return found
}

let echo = ''

const failing = (count: number) => Array.from({ length: count }, () => ({ failures: 99 }))

/** Their leases are long, so that a busy machine loses no attempts, which would come again. */
async function startTwo(): Promise<void> {
  for (let n = 0; n < 2; n++) scene.start({ concurrency: CONCURRENCY, leaseMs: 20_000 })
  await until('two workers are alive', async () => (await scene.store.workers()).length === 2)
}

it('an outage costs the attempts that run when the gate opens, and then one probe per hold over two processes', {
  timeout: 300_000,
}, async () => {
  await scene.store.budgets.set({ kind: 'write' }, { failures: { share: 0.5, minAttempts: 20, holdMs: 1000 } })
  await startTwo()
  await scene.addMany(scene.tasks.write, failing(500))
  await until('the gate is open', async () => (await gate())?.state === 'open')
  const opened = await gate()
  // Other kinds go on meanwhile.
  echo = await scene.add(scene.tasks.echo, 1)
  await until('another kind has run', async () => (await scene.store.get(echo))?.status === 'succeeded')

  const first = await account()
  // Of each process, twice as many may have ended that were not on record yet, and as many have been claimed meanwhile.
  const atOpening = (opened?.cause?.attempts ?? 0) + 2 * 3 * CONCURRENCY
  expect(first.starts).toBeLessThanOrEqual(atOpening + first.holds - 1)
  expect(new Set(scene.starts().map(({ pid }) => pid)).size).toBe(2)

  const later = await account(first.holds + 2)
  expect(later.starts - first.starts).toBe(later.holds - first.holds)
  // The first in line makes the probes, and has four attempts: those before the gate opened may have been its own, too.
  expect((await scene.store.count({ kind: 'write' })).dead).toBeLessThanOrEqual(1)

  await scene.store.budgets.lift({ kind: 'write' })
  await until('they run again', () => scene.starts().length > later.starts + 50)
})

it('of 1 000 tasks that fail at once over two processes, a retry budget of 20 % lets 200 come back', {
  timeout: 300_000,
}, async () => {
  const { budgets } = scene.store
  await budgets.set({ kind: 'write' }, { retries: { share: 0.2, windowMs: 3_600_000, floor: 0.001 } })
  await startTwo()
  await scene.addMany(scene.tasks.write, failing(1000))
  await until('all have failed once, and as many retries as the budget has', async () => {
    const [budget] = await budgets.list()
    const { waiting, running } = await scene.store.count({ kind: 'write' })
    return budget?.retries?.first === 1000 && budget.retries.retried === 200 && running === 0 && waiting === 1000
  })
  await until('the retries that were let through have run', () => scene.starts().length === 1200)
  const retries = scene.starts().filter(({ attempt }) => attempt > 1)
  expect(retries.length).toBe(200)
  expect(new Set(retries.map(({ pid }) => pid)).size).toBe(2)
  await until('the others are held', async () => (await budgets.list())[0]?.retries?.held === 1000)
  expect(scene.starts().length).toBe(1200)

  await budgets.lift({ kind: 'write' })
  await until('they run again', () => scene.starts().length > 1300)
})
