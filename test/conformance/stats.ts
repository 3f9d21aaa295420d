import assert from 'node:assert/strict'
import type { KindStats, StoreContract } from '../../src/store/internal.js'
import { add, claim, claimOne, kill, LEASE_MS, loseTwice, type StoreBehaviours, settle, start } from './harness.js'

const NONE = {
  waiting: 0,
  paused: 0,
  held: 0,
  budgeted: 0,
  ready: 0,
  readySince: undefined,
  limited: 0,
  running: 0,
  dead: 0,
}

/** The figures of a kind and category. */
async function statsOf(store: StoreContract, kind = 'k', category = ''): Promise<Omit<KindStats, 'kind' | 'category'>> {
  const { kinds } = await store.stats()
  const found = kinds.filter(stats => stats.kind === kind && stats.category === category)
  assert.ok(found.length <= 1, `${kind} is there ${found.length} times`)
  const { kind: _, category: __, ...figures } = found[0] ?? { kind, category, ...NONE }
  return figures
}

export const STATS: StoreBehaviours = {
  async 'a store without work has no figures but its clock'(store) {
    assert.deepEqual(await store.stats(), { now: await store.now(), workers: 0, kinds: [] })
  },

  async 'tasks are counted by kind and category, over all keys'(store) {
    const now = await store.now()
    await add(store, { key: 'a' }, { key: 'b' }, { key: 'b' }, { category: 'c' }, { kind: 'l' })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 3, ready: 3, readySince: now })
    assert.deepEqual(await statsOf(store, 'k', 'c'), { ...NONE, waiting: 1, ready: 1, readySince: now })
    assert.deepEqual(await statsOf(store, 'l'), { ...NONE, waiting: 1, ready: 1, readySince: now })
  },

  async 'running and dead tasks are counted, and ended ones are not'(store) {
    await kill(store, await start(store))
    await settle(store, await start(store), { type: 'succeeded' })
    await start(store)
    assert.deepEqual(await statsOf(store), { ...NONE, running: 1, dead: 1 })
  },

  async 'a task is ready from the time that it is due, even if nobody claims'(store, advance) {
    const dueAt = (await store.now()) + 5000
    await add(store, { runAt: dueAt }, { runAt: dueAt + 1000 })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 2 })
    await advance(5000)
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 2, ready: 1, readySince: dueAt })
    await advance(1000)
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 2, ready: 2, readySince: dueAt })
  },

  async 'a retry is ready since it is due, not since it was submitted'(store, advance) {
    await settle(store, await start(store), { type: 'retry', delayMs: 5000, isBackoff: true })
    const dueAt = (await store.now()) + 5000
    await advance(7000)
    // A claim of nothing makes due tasks ready.
    await claim(store, { limit: 1, kinds: ['other'] })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 1, ready: 1, readySince: dueAt })
  },

  async 'the oldest of the ready tasks tells since when, whatever its priority'(store, advance) {
    const first = await store.now()
    await add(store, { priority: -1 })
    await advance(1000)
    await add(store, { priority: 5 }, {})
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 3, ready: 3, readySince: first })
  },

  async 'tasks in a paused lane are not ready'(store) {
    const now = await store.now()
    await add(store, { key: 'a' }, { key: 'a' }, { key: 'b' })
    await store.pause({ kind: 'k', key: 'a' }, { isPaused: true })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 3, paused: 2, ready: 1, readySince: now })
  },

  async 'tasks in a held lane are not ready until the hold is over'(store, advance) {
    const enqueuedAt = await store.now()
    const task = await start(store)
    await add(store, {})
    await settle(store, task, { type: 'deferred', delayMs: 5000 })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 2, held: 2 })
    await advance(5000)
    // It starts with one task.
    const one = { ...NONE, waiting: 2, ready: 1, limited: 1 }
    assert.deepEqual(await statsOf(store), { ...one, readySince: (await statsOf(store)).readySince })
    assert.ok(enqueuedAt <= ((await statsOf(store)).readySince ?? 0))
  },

  async 'tasks under a shared limit that is held are not ready'(store) {
    await store.limit({ kind: 'k' }, { isShared: true })
    const task = await start(store, { key: 'a' })
    await add(store, { key: 'b' })
    await settle(store, task, { type: 'deferred', delayMs: 5000 })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 2, held: 2 })
  },

  async 'an ordered lane is held while its head waits for its time'(store, advance) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    const task = await start(store)
    const dueAt = (await store.now()) + 5000
    await settle(store, task, { type: 'retry', delayMs: 5000, isBackoff: true })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 1, held: 1 })
    await advance(5000)
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 1, ready: 1, readySince: dueAt })
  },

  async 'behind a running task of an ordered lane none is ready'(store) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    const dueAt = await store.now()
    const task = await start(store)
    await add(store, {}, {}, { key: 'other' })
    const running = { ...NONE, waiting: 3, running: 1 }
    assert.deepEqual(await statsOf(store), { ...running, ready: 1, readySince: dueAt, limited: 2 })
    await settle(store, task, { type: 'succeeded' })
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 3, ready: 2, readySince: dueAt, limited: 1 })
  },

  async 'of a lane with limits, as many are ready as may start'(store, advance) {
    await store.limit({ kind: 'k', key: 'a' }, { concurrency: 3 })
    await store.limit({ kind: 'k', key: 'b' }, { perSecond: 2 })
    await add(
      store,
      ...Array.from({ length: 5 }, () => ({ key: 'a' })),
      ...Array.from({ length: 5 }, () => ({ key: 'b' })),
    )
    const counts = async () => {
      const { ready, limited, waiting } = await statsOf(store)
      return { ready, limited, waiting }
    }
    assert.deepEqual(await counts(), { ready: 5, limited: 5, waiting: 10 })
    await claim(store, { limit: 5, kinds: ['k'] })
    assert.deepEqual(await counts(), { ready: 0, limited: 5, waiting: 5 })
    await advance(500)
    assert.deepEqual(await counts(), { ready: 1, limited: 4, waiting: 5 })
  },

  async 'of lanes that share a limit, as many are ready in all as may start'(store, advance) {
    await store.limit(
      { kind: 'k' },
      { isShared: true, concurrency: 4, rates: { tokens: { perSecond: 10, burst: 30 } } },
    )
    const tasks = (category: string) => ['a', 'b', 'c'].map(key => ({ category, key, cost: { tokens: 10 } }))
    await add(store, ...tasks('x'), ...tasks('y'))
    const counts = async () => {
      const parts = await Promise.all([statsOf(store, 'k', 'x'), statsOf(store, 'k', 'y')])
      return [parts.reduce((sum, { ready }) => sum + ready, 0), parts.reduce((sum, { limited }) => sum + limited, 0)]
    }
    assert.deepEqual(await counts(), [3, 3])
    assert.equal((await claim(store, { limit: 10, kinds: ['k'] })).tasks.length, 3)
    assert.deepEqual(await counts(), [0, 3])
    await advance(3000)
    assert.deepEqual(await counts(), [1, 2])
  },

  async 'behind a retry that its budget holds, none of an ordered lane is ready'(store, advance) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await store.budgets.set({ kind: 'k' }, { retries: { share: 0.5 } })
    const task = await start(store)
    await add(store, {})
    await settle(store, task, { type: 'retry', delayMs: 5000, isBackoff: true })
    await advance(5000)
    assert.deepEqual(await statsOf(store), { ...NONE, waiting: 2, budgeted: 1, limited: 1 })
  },

  async 'a task that must run alone is ready too'(store, advance) {
    await add(store, {})
    await loseTwice(store, advance)
    const { ready, waiting } = await statsOf(store)
    assert.deepEqual({ ready, waiting }, { ready: 1, waiting: 1 })
    await claimOne(store, { isIdle: true })
    assert.deepEqual(await statsOf(store), { ...NONE, running: 1 })
  },

  async 'workers are counted while their lease runs'(store, advance) {
    await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })
    await store.heartbeat({ worker: 'w2', leaseMs: 2 * LEASE_MS })
    assert.equal((await store.stats()).workers, 2)
    await advance(LEASE_MS)
    assert.equal((await store.stats()).workers, 1)
    await store.leave('w2')
    assert.equal((await store.stats()).workers, 0)
  },

  async 'a notifier is no worker'(store) {
    const beat = (worker: string, kinds: string[]) => store.heartbeat({ worker, leaseMs: LEASE_MS, kinds })
    await beat('n', ['notify:slack', 'notify:webhook'])
    assert.equal((await store.stats()).workers, 0)
    await beat('w1', ['notify:slack', 'mail'])
    await beat('w2', [])
    assert.equal((await store.stats()).workers, 2)
    assert.equal((await store.workers()).length, 3)
  },
}
