import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { openPostgres } from 'redrive/postgres'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkInvariants } from '../conformance/invariants.js'
import { type Claimed7, createRelease7, type Outcome7, Release7 } from '../fixtures/postgres-7/release-7.js'
import { ownPostgres } from './own-postgres.js'
import { until } from './scene.js'
import { diceOf } from './seed.js'

const ROUNDS = 2
const WORKERS = 3

const dice = diceOf('an upgrade under load')
const postgres = ownPostgres()
let url: string
let pool: pg.Pool
let old: Release7
beforeEach(async () => {
  url = await postgres.server.createDatabase()
  pool = new pg.Pool({ connectionString: url, max: 20 })
  await createRelease7(pool)
  old = new Release7(pool)
})
afterEach(() => pool.end())

const idsOf = (prefix: string, count: number) => Array.from({ length: count }, (_, n) => `${prefix}-${n}`)

/** Claims a task, which is the first there is, and settles it. */
async function finish(id: string, outcome: Outcome7): Promise<void> {
  await old.enqueue([id])
  const tasks = await old.claim('w', 1)
  expect(tasks.map(task => task.id)).toEqual([id])
  expect(await old.settle('w', [[first(tasks), outcome]])).toBe(1)
}

function first<T>([item]: readonly T[]): T {
  if (item === undefined) throw new Error('There is none.')
  return item
}

/** Rows as an upgrade should leave them: the columns that later versions have added are empty. */
async function expectKept(query: string, rows: readonly object[]): Promise<void> {
  const { rows: kept, fields } = await pool.query(query)
  const empty = Object.fromEntries(
    fields.map(({ name, dataTypeID }) => [name, dataTypeID === pg.types.builtins.BOOL ? false : null]),
  )
  expect(kept).toEqual(rows.map(row => ({ ...empty, ...row })))
}

const TASKS = 'SELECT * FROM redrive.standing ORDER BY id'
const LEDGER = 'SELECT * FROM redrive.ledger ORDER BY task, sequence'

/** Work in every state, and a lane in each. Returns what of it runs. */
async function fill(): Promise<Claimed7> {
  await finish('succeeded', { type: 'succeeded' })
  await finish('skipped', { type: 'skipped', reason: 'not wanted' })
  await finish('dead', { type: 'dead', reason: 'final_error' })
  await finish('redriven', { type: 'dead', reason: 'final_error' })
  expect(await old.redrive(['redriven'])).toEqual(['redriven'])
  expect(await old.settle('w', [[first(await old.claim('w', 1)), { type: 'retry', delay: 3_600_000 }]])).toBe(1)
  await finish('retried', { type: 'retry', delay: 3_600_000 })
  await old.enqueue(['cancelled', 'to-be-cancelled'])
  expect(await old.cancel(['cancelled'])).toEqual(['cancelled'])
  const running = first(await old.claim('runs', 1))
  expect(await old.cancel(['to-be-cancelled'])).toEqual(['to-be-cancelled'])
  await old.enqueue(['lost'])
  expect((await old.claim('dies', 1, 1)).map(({ id }) => id)).toEqual(['lost'])
  await until('it is rescued', async () => (await old.heartbeat('runs')) === 1)
  await old.enqueue(['scheduled'], { runAt: Date.now() + 3_600_000 })
  for (const key of ['paused', 'limited', 'held']) await old.enqueue([key], { kind: 'keyed', key })
  await old.pause('paused', true)
  await old.limit('limited', 0)
  expect(
    await old.settle('w', [[first(await old.claim('w', 1, 30_000, false)), { type: 'deferred', delay: 3_600_000 }]]),
  ).toBe(1)
  await old.enqueue(['ready'])
  await old.append('{"event_type":"said"}')
  expect(await old.claimKey('key')).toBe('fresh')
  return running
}

describe('an upgrade of a store of version 7', { timeout: 300_000 }, () => {
  it('leaves the work in every state as it is, but that a loss costs no attempt any more', async () => {
    const running = await fill()
    const before = (await pool.query(TASKS)).rows
    const ledger = (await pool.query(LEDGER)).rows
    const store = await openPostgres(url, { listen: false })
    expect(before.find(({ id }) => id === 'lost')).toMatchObject({ attempts: 1, losses: 1 })
    const after = before.map(row => (row.id === 'lost' ? { ...row, attempts: 0 } : row))
    await expectKept(TASKS, after)
    await expectKept(LEDGER, ledger)
    expect(await store.count({})).toEqual({ waiting: 8, running: 1, succeeded: 1, skipped: 1, dead: 1, cancelled: 1 })
    expect(
      (await store.lanes({ kind: 'keyed' })).map(({ key, isPaused, heldUntil, limits }) => ({
        key,
        isPaused,
        isHeld: heldUntil !== undefined,
        limits,
      })),
    ).toEqual([
      { key: 'held', isPaused: false, isHeld: true, limits: {} },
      { key: 'limited', isPaused: false, isHeld: false, limits: { concurrency: 0 } },
      { key: 'paused', isPaused: true, isHeld: false, limits: {} },
    ])
    expect((await store.audit.page({ limit: 10 })).items).toEqual(['{"event_type":"said"}'])

    // Both releases go on with it.
    const { tasks } = await store.claim({
      worker: 'new',
      leaseMs: 30_000,
      rooms: [{ kinds: ['k'] }],
      limit: 5,
      isIdle: true,
    })
    expect(tasks).toMatchObject([{ id: 'lost', isUndecided: true, losses: 1 }])
    expect((await old.claim('old', 5)).map(({ id }) => id)).toEqual(['ready'])
    expect(await old.settle('runs', [[running, { type: 'retry', delay: 0 }]])).toBe(1)
    expect(await store.get('to-be-cancelled')).toMatchObject({ status: 'cancelled' })
    expect(await old.redrive(['dead'])).toEqual(['dead'])
    expect(await old.deadLetters(10)).toEqual([])
    await checkInvariants(store)
    await store.close()
  })

  it(`does not disturb workers of that release, ${ROUNDS} times`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      await pool.query('DROP SCHEMA IF EXISTS redrive CASCADE')
      await createRelease7(pool)
      await upgradeUnderLoad()
    }
  })
})

/** Returns the outcome of a task's first or later attempts, by its number. */
function outcomeOf(id: string, isFirst: boolean): Outcome7 {
  const types = ['succeeded', 'retry', 'dead', 'skipped', 'later', 'released', 'succeeded', 'deferred']
  const type = isFirst ? (types[Number(id.split('-').at(-1)) % types.length] ?? '') : 'succeeded'
  if (type === 'dead' || type === 'skipped') return { type, reason: type }
  return type === 'retry' || type === 'later' || type === 'deferred' ? { type, delay: 5 } : { type }
}

async function upgradeUnderLoad(): Promise<void> {
  const accepted: string[] = []
  const tried = new Set<string>()
  let isOver = false
  const done = { settled: 0, afterUpgrade: 0, isUpgraded: false }

  async function enqueueOn(): Promise<void> {
    for (let batch = 0; !isOver; batch++) {
      const ids = idsOf(`${batch}`, dice.between(1, 8))
      await old.enqueue(ids, dice.pick([{}, { kind: 'keyed', key: `${batch % 5}` }]))
      accepted.push(...ids)
      await sleep(3)
    }
  }

  async function workOn(worker: string): Promise<void> {
    const isDone = async () => isOver && (await openTasks()) === 0
    while (!(await isDone())) {
      const tasks = await old.claim(worker, dice.between(1, 10))
      if (dice.between(0, 9) === 0) await old.heartbeat(worker)
      const settlements = tasks.map(task => [task, outcomeOf(task.id, !tried.has(task.id))] as const)
      for (const { id } of tasks) tried.add(id)
      const settled = settlements.length === 0 ? 0 : await old.settle(worker, settlements)
      expect(settled).toBe(settlements.length)
      done.settled += settled
      if (done.isUpgraded) done.afterUpgrade += settled
    }
  }

  const work = Promise.all([enqueueOn(), ...idsOf('worker', WORKERS).map(workOn)])
  const whileWorking = (what: string, isSo: () => boolean) => Promise.race([work, until(what, isSo)])
  await whileWorking('they are at it', () => done.settled > 50)
  const stores = await Promise.all([1, 2, 3].map(() => openPostgres(url, { listen: false })))
  done.isUpgraded = true
  await whileWorking('they go on', () => done.afterUpgrade > 50)
  isOver = true
  await work

  const store = first(stores)
  const counts = await store.count({})
  expect(counts.succeeded + counts.skipped + counts.dead).toBe(accepted.length)
  for (const id of accepted) {
    const { type } = outcomeOf(id, true)
    const status = type === 'dead' || type === 'skipped' ? type : 'succeeded'
    expect(await store.get(id), id).toMatchObject({ status })
  }
  await checkInvariants(store)
  process.stdout.write(`[faults] ${done.settled} attempts around an upgrade, ${done.afterUpgrade} of them after it\n`)
  for (const opened of stores) await opened.close()
}

async function openTasks(): Promise<number> {
  const { rows } = await pool.query('SELECT coalesce(sum(waiting + running), 0)::int AS open FROM redrive.tally')
  return rows[0].open
}
