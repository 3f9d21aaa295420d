import assert from 'node:assert/strict'
import type { NewTask } from '../../src/store/index.js'
import type { ClaimedTask, StoreContract } from '../../src/store/internal.js'
import { add, claim, claimIds, type StoreBehaviours, settle } from './harness.js'

const SUCCEEDED = { type: 'succeeded' } as const

/** A limit over all lanes of a kind, the quota of a provider, beside the limits of each lane, those of tenants. */
export const QUOTAS: StoreBehaviours = {
  async 'tenants take turns under a quota, each within its own limit'(store) {
    await store.limit({ kind: 'k' }, { isShared: true, concurrency: 5 })
    await store.limit({ kind: 'k' }, { concurrency: 2 })
    await add(store, ...backlog('a', 20), ...backlog('b', 20), ...backlog('c', 1))
    const running = [...(await claim(store)).tasks]
    assert.deepEqual(countsOf(running), { a: 2, b: 2, c: 1 })
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    const first = await drain(store, running, 20)
    const { a = 0, b = 0 } = countsOf(first)
    assert.ok(Math.abs(a - b) <= 2, `one tenant had ${a} of its tasks run, the other ${b}`)
  },

  async 'a tenant that is at its limit leaves the rest of the quota to the others'(store) {
    await store.limit({ kind: 'k' }, { isShared: true, concurrency: 6 })
    await store.limit({ kind: 'k' }, { concurrency: 4 })
    await add(store, ...backlog('a', 20), ...backlog('b', 1))
    const { tasks } = await claim(store)
    assert.deepEqual(countsOf(tasks), { a: 4, b: 1 })
    await add(store, ...backlog('c', 20))
    assert.deepEqual(countsOf((await claim(store, { worker: 'w2' })).tasks), { c: 1 })
  },

  async 'the rate of a quota and that of each tenant hold at once'(store, advance) {
    await store.limit({ kind: 'k' }, { isShared: true, rates: { calls: { perSecond: 10, burst: 5 } } })
    await store.limit({ kind: 'k' }, { perSecond: 2 })
    await add(store, ...backlog('a', 20), ...backlog('b', 20), ...backlog('c', 20))
    assert.deepEqual(countsOf((await claim(store)).tasks), { a: 2, b: 2, c: 1 })
    await advance(100)
    assert.deepEqual(countsOf((await claim(store)).tasks), { c: 1 })
    await advance(1000)
    const { a = 0, b = 0, c = 0 } = countsOf((await claim(store)).tasks)
    assert.deepEqual([a + b + c, Math.max(a, b, c)], [5, 2])
  },

  async 'a rate limit that one tenant meets holds them all, and afterwards they take turns again'(store, advance) {
    await store.limit({ kind: 'k' }, { isShared: true, concurrency: 10 })
    await store.limit({ kind: 'k' }, { concurrency: 3 })
    await add(store, ...backlog('a', 30), ...backlog('b', 30))
    const [refused, ...others] = (await claim(store, { limit: 4 })).tasks
    assert.ok(refused !== undefined)
    for (const task of others) await settle(store, task, SUCCEEDED)
    await settle(store, refused, { type: 'deferred', delayMs: 30_000 })
    assert.deepEqual(await claimIds(store), [])
    await advance(29_999)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    const started: ClaimedTask[] = []
    for (let seconds = 0; seconds < 10; seconds++) {
      const { tasks } = await claim(store)
      started.push(...tasks)
      for (const task of tasks) await settle(store, task, SUCCEEDED)
      await advance(1000)
    }
    const { a = 0, b = 0 } = countsOf(started)
    assert.ok(a + b >= 10 && Math.abs(a - b) <= 2, `one tenant had ${a} of its tasks run, the other ${b}`)
  },

  async 'a quota over a category of many tenants leaves other work of the kind alone'(store) {
    await store.limit({ kind: 'k', category: 'llm' }, { isShared: true, concurrency: 2 })
    const llm = ['a', 'b', 'c'].flatMap(key => backlog(key, 2, 'llm'))
    await add(store, ...llm, ...backlog('a', 3))
    const { tasks } = await claim(store)
    assert.equal(tasks.filter(({ category }) => category === 'llm').length, 2)
    assert.equal(tasks.filter(({ category }) => category === '').length, 3)
  },
}

function backlog(key: string, count: number, category = ''): Partial<NewTask>[] {
  return Array.from({ length: count }, () => ({ key, category }))
}

function countsOf(tasks: readonly ClaimedTask[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { key } of tasks) counts[key] = (counts[key] ?? 0) + 1
  return counts
}

/** Lets one task after the other succeed, each time claiming what may start then. Returns those that ran first. */
async function drain(store: StoreContract, running: ClaimedTask[], count: number): Promise<ClaimedTask[]> {
  const done: ClaimedTask[] = []
  for (let task = running.shift(); task !== undefined && done.length < count; task = running.shift()) {
    await settle(store, task, SUCCEEDED)
    done.push(task)
    running.push(...(await claim(store)).tasks)
  }
  assert.equal(done.length, count)
  return done
}
