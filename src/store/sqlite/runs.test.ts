import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { type FakeClock, fakeClock } from '../../testing/index.js'
import { type ClaimedTask, MemoryStore, type Outcome, type StoreContract } from '../internal.js'
import { openSqlite } from './internal.js'

import { runStatementsOf } from './statements/runs.js'

let folder: string
let clock: FakeClock
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'redrive-runs-'))
  clock = fakeClock()
})
afterEach(() => rmSync(folder, { recursive: true }))

const DEAD: Outcome = { type: 'dead', reason: 'final_error' }

const settings = (failureBudget: number) => ({
  failureBudget,
  stageBudgets: {},
  checkInterval: 10,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 1000,
  concurrency: {},
})

async function open(store: StoreContract, count: number, failureBudget: number): Promise<void> {
  const run = { id: 'r', pipeline: 'p', version: '1', stages: ['a', 'b'], settings: settings(failureBudget) }
  await store.runs.open(run)
  const items = Array.from({ length: count }, () => ({ payload: '1' }))
  await store.runs.take('r', { reader: 'me', leaseMs: 1000, position: 0, items, isEnd: true })
}

async function claim(store: StoreContract, limit: number): Promise<readonly ClaimedTask[]> {
  const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['pipeline:p'] }], limit, isIdle: true }
  return (await store.claim(request)).tasks
}

const settle = (store: StoreContract, tasks: readonly ClaimedTask[], outcome: Outcome) =>
  store.settle(
    tasks.map(({ id, token, changedAt }) => {
      const attempt = { attempt: 1, startedAt: changedAt, endedAt: changedAt, worker: 'w' }
      return { id, token, outcome, attempt }
    }),
  )

it.each(['memory', 'sqlite'])('%s stops a run within the settlement that exceeds its budget', async kind => {
  const store = kind === 'memory' ? new MemoryStore({ clock }) : await openSqlite(join(folder, 'a.db'), { clock })
  await open(store, 100, 0.5)
  const items = await claim(store, 12)
  await settle(store, items.slice(0, 9), DEAD)
  expect((await claim(store, 1)).length).toBe(1)
  await settle(store, items.slice(9, 10), DEAD)
  expect(await claim(store, 1)).toEqual([])
  expect(await store.runs.get('r')).toMatchObject({ status: 'stopped', stop: { processed: 10, dead: 10 } })
  expect(await settle(store, items.slice(10), { type: 'advanced', to: 'b', value: '1', keep: true })).toEqual([
    { result: 'settled' },
    { result: 'settled' },
  ])
  await checkInvariants(store)
  await store.close()
})

it('a run that another process forgot leaves nothing behind here: the same id works again', async () => {
  const [one, two] = [
    await openSqlite(join(folder, 'a.db'), { clock }),
    await openSqlite(join(folder, 'a.db'), { clock }),
  ]
  for (const store of [one, two]) {
    await open(store, 2, 1)
    // The lanes of both stages are known to the first process.
    await settle(one, await claim(one, 2), { type: 'advanced', to: 'b', value: '1', keep: false })
    await settle(one, await claim(one, 2), { type: 'succeeded' })
    expect(await store.runs.check('r')).toMatchObject({ status: 'completed', counts: { succeeded: 2 } })
    await checkInvariants(one)
    await clock.advance(1000)
    expect(await two.prune({ endedMs: 1000 }, 100)).toBe(3)
  }
  expect(await one.lanes({})).toEqual([])
  await Promise.all([one.close(), two.close()])
})

it('lanes of runs that have ended cost a shared limit nothing: its index has only lanes with work', async () => {
  const store = await openSqlite(join(folder, 'a.db'), { clock })
  await store.limit({ kind: 'pipeline:p' }, { isShared: true, concurrency: 5, rates: { calls: { perSecond: 5 } } })
  const run = { pipeline: 'p', version: '1', stages: ['a', 'b'], settings: settings(1) }
  for (let n = 0; n < 30; n++) {
    await store.runs.open({ ...run, id: `ended-${n}` })
    await store.runs.take(`ended-${n}`, { reader: 'me', leaseMs: 1000, position: 0, items: [], isEnd: true })
    expect(await store.runs.check(`ended-${n}`)).toMatchObject({ status: 'completed' })
  }
  await open(store, 3, 1)
  await claim(store, 1)
  const db = new Database(join(folder, 'a.db'))
  db.exec('ANALYZE')
  const entries = () => db.prepare(`SELECT stat FROM sqlite_stat1 WHERE idx = 'lane_shared'`).pluck().get()
  expect(entries()).toMatch(/^1 /)
  db.close()
  await store.close()
})

it('finds the waiting items of a run by their lanes, however many others are scheduled', async () => {
  const store = await openSqlite(join(folder, 'a.db'), { clock })
  const db = new Database(join(folder, 'a.db'))
  const source = Reflect.get(runStatementsOf(db).waiting, 'source')
  const scope = { kind: 'pipeline:p', key: 'r', limit: 10 }
  const plan = db.prepare<object, { detail: string }>(`EXPLAIN QUERY PLAN ${source}`).all(scope)
  const steps = plan.map(({ detail }) => detail).filter(detail => /(SCAN|SEARCH) task/.test(detail))
  expect(steps).toEqual([
    expect.stringContaining('INDEX task_ready (lane=?)'),
    expect.stringContaining('INDEX item_scheduled (lane=?)'),
    expect.stringContaining('INDEX task_budgeted_lane (lane=?)'),
    // Few tasks must run alone.
    expect.stringContaining('INDEX task_alone'),
  ])
  db.close()
  await store.close()
})
