import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import type { RunSettings, StoreContract } from '../internal.js'
import { openPostgres, type PostgresStore } from './internal.js'

/* Two processes, each with connections of its own, end a run between them. */

const SETTINGS: RunSettings = {
  failureBudget: 0.5,
  stageBudgets: {},
  checkInterval: 10,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 1000,
  concurrency: {},
}
const TRIALS = 30

let pools: pg.Pool[]
let stores: readonly [PostgresStore, PostgresStore]
beforeAll(async () => {
  const connectionString = await freshDatabase()
  pools = [new pg.Pool({ connectionString }), new pg.Pool({ connectionString })]
  const opened = []
  for (const pool of pools) opened.push(await openPostgres(pool, { listen: false }))
  const [one, two] = opened
  if (one === undefined || two === undefined) throw new Error('Two stores should be open.')
  stores = [one, two]
}, 120_000)
afterAll(async () => {
  for (const store of stores) await store.close()
  for (const pool of pools) await pool.end()
})

async function openRun(store: StoreContract, id: string, count: number, pipeline = 'p'): Promise<void> {
  const onEnd = { kind: 'report', payload: 'null' }
  await store.runs.open({ id, pipeline, version: '1', stages: ['a'], settings: SETTINGS, hasOutput: true, onEnd })
  const items = Array.from({ length: count }, (_, index) => ({ payload: String(index) }))
  await store.runs.take(id, { reader: 'r', leaseMs: 60_000, position: 0, items, isEnd: true })
}

async function claim(store: StoreContract, worker: string, limit: number, pipeline = 'p') {
  const { tasks } = await store.claim({
    worker,
    leaseMs: 60_000,
    rooms: [{ kinds: [`pipeline:${pipeline}`] }],
    limit,
    isIdle: true,
  })
  return tasks.map(({ id, token, changedAt }) => {
    const attempt = { attempt: 1, startedAt: changedAt, endedAt: changedAt, worker }
    return { id, token, attempt }
  })
}

it(`a run ends exactly once when two processes settle its last two items at once, ${TRIALS} times`, async () => {
  for (let trial = 0; trial < TRIALS; trial++) {
    const id = `run-${trial}`
    await openRun(stores[0], id, 2)
    const claims = [await claim(stores[0], 'w1', 1), await claim(stores[1], 'w2', 1)] as const
    const ends = await Promise.all(
      stores.map(async (store, index) => {
        const settlements = claims[index]?.map(item => ({ ...item, outcome: { type: 'succeeded' } as const })) ?? []
        expect(await store.settle(settlements)).toEqual([{ result: 'settled' }])
        return store.runs.check(id)
      }),
    )
    expect(ends.some(({ status }) => status === 'completed')).toBe(true)
    expect(await stores[0].runs.get(id)).toMatchObject({ status: 'completed', endings: 1, counts: { succeeded: 2 } })
    expect(await stores[0].runs.outputs(id, 10)).toHaveLength(2)
    expect(await stores[0].get(`${id}:end:1`)).toMatchObject({ kind: 'report', status: 'waiting' })
  }
  expect(await stores[0].count({ kind: 'report' })).toMatchObject({ waiting: TRIALS })
  await checkInvariants(stores[0])
}, 120_000)

it('one reader takes a chunk when two processes send it at once', async () => {
  for (let trial = 0; trial < 20; trial++) {
    const id = `read-${trial}`
    await stores[0].runs.open({ id, pipeline: 'q', version: '1', stages: ['a'], settings: SETTINGS })
    const items = [{ payload: '1' }, { payload: '2' }]
    const chunks = stores.map((store, reader) =>
      store.runs.take(id, { reader: `reader-${reader}`, leaseMs: 60_000, position: 0, items, isEnd: false }),
    )
    const results = await Promise.allSettled(chunks)
    expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected'])
    expect(await stores[1].runs.get(id)).toMatchObject({ position: 2, duplicates: 0, counts: { waiting: 2 } })
  }
})

it('a run that is reprocessed and checked at once, by two processes, is neither lost nor ended twice', async () => {
  await openRun(stores[0], 'again', 20)
  const items = await claim(stores[0], 'w1', 20)
  const settlements = items.map(item => ({ ...item, outcome: { type: 'dead', reason: 'final_error' } as const }))
  await stores[0].settle(settlements)
  await stores[0].runs.check('again')
  const by = { who: 'ann' }
  const moves = stores.map(store => store.runs.reprocess({ pipeline: 'p', run: 'again' }, { limit: 15, by }))
  const checks = stores.map(store => store.runs.check('again'))
  const moved = await Promise.all(moves)
  await Promise.all(checks)
  expect(moved.reduce((sum, { moved: count }) => sum + count, 0)).toBe(20)
  expect(moved.flatMap(({ reopened }) => reopened)).toEqual(['again'])
  expect(await stores[0].runs.get('again')).toMatchObject({ status: 'running', endings: 1, counts: { waiting: 20 } })
  await checkInvariants(stores[0])
})

it('stops a run with the settlement that exceeds its budget, where one process works on it alone', async () => {
  const [store] = stores
  await openRun(store, 'failing', 40, 'alone')
  const dead = { outcome: { type: 'dead', reason: 'final_error' } } as const
  const answers = []
  for (let n = 0; n < 12; n++) {
    const items = await claim(store, 'w1', 1, 'alone')
    answers.push(...(await store.settle(items.map(item => ({ ...item, ...dead })))))
  }
  expect(answers.map(({ isStopped = false }) => isStopped).indexOf(true)).toBe(9)
  expect(answers, 'nothing of it starts any more').toHaveLength(10)
  expect((await store.runs.check('failing')).status).toBe('stopped')
})
