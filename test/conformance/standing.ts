import assert from 'node:assert/strict'
import type { StoreContract, TaskStanding } from '../../src/store/internal.js'
import { add, addOne, claim, get, LEASE_MS, laneOf, lose, type StoreBehaviours, settle, start } from './harness.js'

async function standing(store: StoreContract, id: string, limit = 100): Promise<TaskStanding> {
  const found = await store.standing(id, limit)
  assert.ok(found !== undefined, `the task ${id} should stand somewhere`)
  return found
}

const NOTHING = {
  before: undefined,
  worker: undefined,
  isUndecided: false,
  isToBeCancelled: false,
  retryBudget: undefined,
  behindRetry: undefined,
  blockedBy: undefined,
  ramp: undefined,
  rateOpensAt: undefined,
  shared: undefined,
}

/** Where tasks stand: in the queue of their lane, or with a worker. */
export const STANDING: StoreBehaviours = {
  'a waiting task stands in its lane, with its record and that of the lane': async store => {
    const id = await addOne(store, { category: 'c', key: 't' })
    const now = await store.now()
    const lane = await laneOf(store, { kind: 'k' })
    assert.deepEqual(await standing(store, id), { now, task: await get(store, id), lane, ...NOTHING, before: 0 })
    assert.equal(await store.standing('unknown', 100), undefined)
  },

  'tasks before it are those of its lane that are ready and come first, up to a limit': async store => {
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'x', key: 'other' }, { id: 'urgent', priority: 5 })
    await add(store, { id: 'later', runAt: (await store.now()) + 1000 }, { id: 'c' }, { id: 'low', priority: -1 })
    const before = async (id: string, limit?: number) => (await standing(store, id, limit)).before
    assert.deepEqual(
      [await before('urgent'), await before('a'), await before('b'), await before('c'), await before('low')],
      [0, 1, 2, 3, 4],
    )
    assert.deepEqual([await before('low', 4), await before('low', 3), await before('low', 1)], [4, 3, 1])
    assert.deepEqual([await before('x'), await before('later')], [0, undefined])
  },

  'a running task stands with its worker': async (store, advance) => {
    const task = await start(store)
    const now = await store.now()
    const { worker, before } = await standing(store, task.id)
    assert.deepEqual([worker, before], [{ name: 'w1', until: now + LEASE_MS }, undefined])
    await store.cancel([task.id])
    assert.equal((await standing(store, task.id)).isToBeCancelled, true)
    await advance(1)
    await settle(store, task, { type: 'succeeded' })
    const ended = await standing(store, task.id)
    assert.deepEqual([ended.worker, ended.task.status, ended.isToBeCancelled], [undefined, 'succeeded', false])
  },

  'a task whose worker died waits for a decision': async (store, advance) => {
    const id = await addOne(store)
    await lose(store, advance)
    const lost = await standing(store, id)
    assert.deepEqual([lost.isUndecided, lost.before, lost.task.losses], [true, 0, 1])
  },

  'after a hold a lane starts with one task': async (store, advance) => {
    const task = await start(store)
    const id = await addOne(store)
    await settle(store, task, { type: 'deferred', delayMs: 1000 })
    const held = await standing(store, id)
    assert.deepEqual([held.ramp, held.lane.heldBy, held.lane.heldUntil], [1, task.id, held.now + 1000])
    await advance(1000)
    const { ramp, lane } = await standing(store, id)
    assert.deepEqual([ramp, lane.heldUntil], [1, undefined])
  },

  'a rate tells when the next task may start': async (store, advance) => {
    await store.limit({ kind: 'k' }, { perSecond: 2 })
    const [a = ''] = await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    const open = await standing(store, a)
    assert.ok((open.rateOpensAt ?? Infinity) <= open.now)
    await claim(store)
    const closed = await standing(store, 'c')
    assert.equal(closed.rateOpensAt, closed.now + 500)
    await advance(500)
    assert.ok(((await standing(store, 'c')).rateOpensAt ?? Infinity) <= closed.now + 500)
  },

  'a shared limit tells how many run, and when it lets this task start': async store => {
    await store.limit({ kind: 'k' }, { isShared: true, concurrency: 5, rates: { tokens: { perSecond: 10 } } })
    await add(store, { id: 'a', key: 'a', cost: { tokens: 10 } }, { id: 'b', key: 'b', cost: { tokens: 5 } })
    assert.deepEqual((await standing(store, 'b')).shared, { running: 0, opensAt: await store.now() })
    await claim(store)
    const { now, shared } = await standing(store, 'b')
    assert.deepEqual(shared, { running: 1, opensAt: now + 500 })
  },
}
