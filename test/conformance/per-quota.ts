import assert from 'node:assert/strict'
import type { NewTask } from '../../src/store/index.js'
import type { ClaimedTask, SharedLimits, StoreContract } from '../../src/store/internal.js'
import {
  add,
  assertFields,
  claim,
  claimIds,
  claimOne,
  LEASE_MS,
  laneOf,
  type StoreBehaviours,
  settle,
} from './harness.js'

const SUCCEEDED = { type: 'succeeded' } as const
const EVERYTHING = { endedMs: 0, deadMs: 0, keysMs: 0, auditMs: 0 }

/** A second key for limits: lanes are repositories, say, and quotas the accounts that they belong to. */
export const PER_QUOTA: StoreBehaviours = {
  async 'each quota has the limit by itself, over all its lanes, in order within each'(store) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 2 }))
    await add(store, ...repos('acme', 3, 2), ...repos('other', 3, 2), { key: 'free' })
    const { tasks } = await claim(store)
    assert.deepEqual(accountsOf(tasks), { acme: 2, free: 1, other: 2 })
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    const [first] = tasks.filter(({ key }) => key.startsWith('acme'))
    assert.ok(first !== undefined)
    await settle(store, first, SUCCEEDED)
    const { key } = await claimOne(store)
    assert.ok(key.startsWith('acme'), `a task of ${key} has started in the place of one of acme`)
  },

  async 'a quota that is enqueued before its limits are declared gets them, and keeps what runs'(store) {
    await add(store, ...repos('acme', 3, 1))
    const [one] = (await claim(store, { limit: 1 })).tasks
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 2 }))
    assert.equal((await claimIds(store)).length, 1)
    assert.deepEqual(await claimIds(store), [])
    await store.limit({ kind: 'k' }, perQuota({}))
    assert.equal((await claimIds(store)).length, 1)
    assert.ok(one !== undefined)
  },

  async 'the rate of each quota is its own'(store, advance) {
    await store.limit({ kind: 'k' }, perQuota({ rates: { calls: { perSecond: 10, burst: 2 } } }))
    await add(store, ...repos('acme', 4, 1), ...repos('other', 3, 1))
    const { tasks, now, nextAt } = await claim(store)
    assert.deepEqual(accountsOf(tasks), { acme: 2, other: 2 })
    assert.equal(nextAt, now + 100)
    await advance(99)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.deepEqual(accountsOf((await claim(store)).tasks), { acme: 1, other: 1 })
  },

  async 'the cost of a task is taken from its quota, and what an attempt really took corrects it'(store) {
    await store.limit({ kind: 'k' }, perQuota({ rates: { tokens: { perSecond: 1, burst: 100 } } }))
    const task = (key: string, tokens: number) => ({ id: key, key, quota: 'acme', cost: { tokens } })
    await add(store, task('a', 90), task('b', 60), { ...task('c', 60), quota: 'other' })
    const { tasks } = await claim(store)
    assert.deepEqual(tasks.map(({ id }) => id).sort(), ['a', 'c'])
    const a = tasks.find(({ id }) => id === 'a')
    assert.ok(a !== undefined)
    const attempt = { attempt: 1, startedAt: a.changedAt, endedAt: a.changedAt, worker: 'w1' }
    await store.settle([{ id: 'a', token: a.token, outcome: SUCCEEDED, attempt, used: { tokens: 10 } }])
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'a rate limit holds all lanes of its quota, with or without limits, and no others'(store, advance) {
    await add(store, ...repos('acme', 2, 2), ...repos('other', 1, 2))
    const { tasks } = await claim(store, { limit: 1 })
    assert.deepEqual(accountsOf(tasks), { acme: 1 })
    for (const task of tasks) await settle(store, task, { type: 'deferred', delayMs: 500 })
    await add(store, { key: 'acme-new', quota: 'acme' })
    const { tasks: others, now, nextAt } = await claim(store)
    assert.deepEqual(accountsOf(others), { other: 2 })
    assert.equal(nextAt, now + 500)
    assert.equal((await laneOf(store, { key: 'acme-new' })).heldUntil, now + 500)
    assert.equal((await laneOf(store, { key: 'other-0' })).heldUntil, undefined)
    await advance(499)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.equal((await claimIds(store)).length, 1, 'it starts at the pace that was learned')
  },

  async 'a lane stays under its quota until a task brings another, with what runs'(store) {
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 1 }))
    await add(store, { id: 'a1', key: 'r1', quota: 'a' }, { id: 'a2', key: 'r2', quota: 'a' })
    assert.deepEqual(await claimIds(store, { limit: 1 }), ['a1'])
    await add(store, { id: 'a3', key: 'r1' })
    assertFields((await laneOf(store, { key: 'r1' })).shared ?? {}, { quota: 'a' })
    assert.deepEqual(await claimIds(store), [])
    await add(store, { id: 'b1', key: 'r1', quota: 'b' })
    assertFields((await laneOf(store, { key: 'r1' })).shared ?? {}, { quota: 'b' })
    assert.deepEqual(await claimIds(store), ['a2'], 'a has nothing that runs any more, and b has the task of the lane')
  },

  async 'the limits that lanes share by kind or category do not concern those with a quota'(store) {
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 2 }))
    await add(store, ...repos('acme', 3, 1))
    await store.limit({ kind: 'k' }, { isShared: true, concurrency: 1 })
    await add(store, ...repos('other', 3, 1), { key: 'x' }, { key: 'y' })
    const { tasks } = await claim(store)
    assert.deepEqual(accountsOf(tasks), {
      acme: 2,
      other: 2,
      [tasks.find(({ key }) => key.length === 1)?.key ?? '']: 1,
    })
  },

  async 'the limits of each lane hold beside those of its quota'(store) {
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 3 }))
    await store.limit({ kind: 'k', category: '', key: 'acme-0' }, { concurrency: 1 })
    await add(store, ...repos('acme', 2, 5))
    const { tasks } = await claim(store)
    assert.deepEqual(tasks.map(({ key }) => key).sort(), ['acme-0', 'acme-1', 'acme-1'])
  },

  async 'a place of a quota is free again when a task is lost, and its waiting tasks are told why'(store, advance) {
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 1 }))
    await add(store, { id: 'a', key: 'r1', quota: 'acme' }, { id: 'b', key: 'r2', quota: 'acme' })
    await claimOne(store)
    const waiting = await store.standing('b', 100)
    assertFields(waiting ?? {}, { shared: { running: 1, opensAt: await store.now() } })
    assertFields(waiting?.lane ?? {}, {
      shared: { limits: perQuota({ concurrency: 1 }), pace: undefined, quota: 'acme' },
    })
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    assert.equal((await claimIds(store, { worker: 'w2' })).length, 1)
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
  },

  async 'limits that code declares again change nothing, and an operator’s hold until then'(store) {
    const declared = { ...perQuota({ concurrency: 1 }), isDeclared: true }
    await store.limit({ kind: 'k' }, declared)
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 2 }), { who: 'ada' })
    await store.limit({ kind: 'k' }, declared)
    await store.limit({ kind: 'k' }, { isShared: true, concurrency: 9, isDeclared: true })
    await add(store, ...repos('acme', 5, 1))
    assert.equal((await claimIds(store)).length, 2)
    const { limits } = await store.laneRules({ kind: 'k' })
    const byConcurrency = limits
      .map(({ limits: set }) => set)
      .sort((a, b) => (b.concurrency ?? 0) - (a.concurrency ?? 0))
    assert.deepEqual(byConcurrency, [
      { isShared: true, concurrency: 9 },
      { isShared: true, isPerQuota: true, concurrency: 2 },
    ])
  },

  async 'what a quota keeps back is limited, not ready'(store) {
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 3 }))
    await add(store, ...repos('acme', 2, 4), ...repos('other', 1, 1), { key: 'free' })
    assert.deepEqual(await figures(store), { ready: 5, limited: 5 })
    await claim(store)
    assert.deepEqual(await figures(store), { ready: 0, limited: 5 })
    await store.limit({ kind: 'k' }, perQuota({ rates: { calls: { perSecond: 1, burst: 4 } } }))
    assert.deepEqual(await figures(store), { ready: 4, limited: 1 })
  },

  async 'quotas of many accounts are each found, whatever their number'(store) {
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 1 }))
    const accounts = Array.from({ length: 300 }, (_, n) => `a${n}`)
    await add(store, ...accounts.flatMap(quota => [0, 1].map(n => ({ key: `${quota}-${n}`, quota }))))
    const seen = new Map<string, number>()
    for (let round = 0; round < 20; round++) {
      for (const { key } of (await claim(store)).tasks) {
        const account = key.slice(0, key.indexOf('-'))
        seen.set(account, (seen.get(account) ?? 0) + 1)
      }
    }
    assert.deepEqual([seen.size, Math.max(...seen.values())], [300, 1])
  },

  async 'a quota is forgotten with its last lane, unless it is held'(store, advance) {
    await store.limit({ kind: 'k' }, perQuota({ concurrency: 1, rates: { calls: { perSecond: 0.001 } } }))
    await add(store, { key: 'r1', quota: 'acme' }, { key: 'last' })
    for (const task of (await claim(store)).tasks) await settle(store, task, SUCCEEDED)
    await pruneTo(store, advance, ['last'])
    // Its bucket is full again after 1000 s; by then the lane is gone, and so is the quota.
    await advance(1_000_000)
    for (let n = 0; n < 3; n++) await store.prune(EVERYTHING, 100)
    await add(store, { id: 'again', key: 'r1', quota: 'acme' }, { key: 'r2', quota: 'acme' })
    assertFields((await laneOf(store, { key: 'r1' })).shared ?? {}, { quota: 'acme' })
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'a quota needs a key and a name, and limits per quota no category'(store) {
    await assert.rejects(add(store, { quota: 'acme' }), { name: 'OptionError', message: /'quota' needs a 'key'/ })
    await assert.rejects(add(store, { key: 'r', quota: '' }), { name: 'OptionError', message: /must not be empty/ })
    await assert.rejects(add(store, { key: 'r', quota: 'x'.repeat(600) }), {
      name: 'OptionError',
      message: /512 bytes/,
    })
    const limits = perQuota({ concurrency: 1 })
    await assert.rejects(store.limit({ kind: 'k', category: 'c' }, limits), { message: /hold for a whole kind/ })
    await assert.rejects(store.limit({ kind: 'k', key: 'r' }, limits), { name: 'OptionError' })
  },
}

function perQuota(limits: Pick<SharedLimits, 'concurrency' | 'rates'>): SharedLimits {
  return { isShared: true, isPerQuota: true, ...limits }
}

/** Tasks of repositories of an account: the key of each begins with its name. */
function repos(quota: string, count: number, tasks: number): Partial<NewTask>[] {
  return Array.from({ length: count * tasks }, (_, n) => ({ key: `${quota}-${n % count}`, quota }))
}

function accountsOf(tasks: readonly ClaimedTask[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { key } of tasks) {
    const account = key.split('-')[0] ?? ''
    counts[account] = (counts[account] ?? 0) + 1
  }
  return Object.fromEntries(Object.entries(counts).sort())
}

async function figures(store: StoreContract) {
  const { kinds } = await store.stats()
  assert.equal(kinds.length, 1)
  return { ready: kinds[0]?.ready, limited: kinds[0]?.limited }
}

/** Prunes until only lanes with these keys are left. */
async function pruneTo(
  store: StoreContract,
  advance: (ms: number) => Promise<void>,
  left: readonly string[],
): Promise<void> {
  for (let n = 0; n < 50; n++) {
    await store.prune(EVERYTHING, 100)
    const keys = (await store.lanes()).map(({ key }) => key)
    if (keys.every(key => left.includes(key))) return
    await advance(86_400_001)
  }
  assert.fail('the lanes are still there')
}
