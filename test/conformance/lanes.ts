import assert from 'node:assert/strict'
import type { Outcome } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  claim,
  claimIds,
  claimOne,
  laneOf,
  lose,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
  TIMED_OUT,
} from './harness.js'

const RETRY = { type: 'retry', delayMs: 1, isBackoff: false } as const
const FAILED = { verdict: TIMED_OUT, error: 'Error: slow' } as const

export const LANES: StoreBehaviours = {
  async 'keyed lanes take turns, so that one backlog does not starve the others'(store) {
    await add(store, ...numbered('a', 30))
    await add(store, ...numbered('b', 3), ...numbered('c', 3))
    const claimed = await claimIds(store, { limit: 9 })
    assert.deepEqual(countByLane(claimed), { a: 3, b: 3, c: 3 })
    assertExactWithin(claimed)
  },

  async 'keyed lanes take turns from claim to claim'(store) {
    await add(store, ...numbered('a', 30), ...numbered('b', 30), ...numbered('c', 30))
    const claimed: string[] = []
    for (let turn = 0; turn < 12; turn++) claimed.push(...(await claimIds(store, { limit: 1 })))
    assert.deepEqual(countByLane(claimed), { a: 4, b: 4, c: 4 })
    assertExactWithin(claimed)
  },

  async 'all lanes without a key together take one turn'(store) {
    const unkeyed = numbered('u', 30).map((task, index) => ({ ...task, key: '', category: `c${index % 3}` }))
    await add(store, ...unkeyed, ...numbered('a', 30))
    const claimed: string[] = []
    for (let turn = 0; turn < 10; turn++) claimed.push(...(await claimIds(store, { limit: 1 })))
    assert.deepEqual(countByLane(claimed), { u: 5, a: 5 })
    assertExactWithin(claimed)
  },

  async 'a lane is a kind, a category and a key: each of them has turns of its own'(store) {
    const tasks = [
      ...numbered('a', 5).map(task => ({ ...task, key: 'same' })),
      ...numbered('b', 5).map(task => ({ ...task, key: 'same', category: 'c' })),
      ...numbered('c', 5).map(task => ({ ...task, key: 'same', kind: 'l' })),
    ]
    await add(store, ...tasks)
    const claimed = await claimIds(store, { kinds: ['k', 'l'], limit: 6 })
    assert.deepEqual(countByLane(claimed), { a: 2, b: 2, c: 2 })
  },

  async 'a lane that has little leaves its turns to the others'(store) {
    await add(store, ...numbered('a', 10), ...numbered('b', 2))
    assert.deepEqual(countByLane(await claimIds(store, { limit: 8 })), { a: 6, b: 2 })
  },

  async 'however many lanes there are, a claim gets what they have'(store) {
    const lanes = Array.from({ length: 40 }, (_, n) => ({ id: `k-${n}`, key: `tenant-${n}` }))
    await add(store, ...lanes, { id: 'no-key' })
    assert.equal((await claimIds(store, { limit: 100 })).length, 41)
  },

  async 'within a lane the order is exact, due retries included'(store, advance) {
    const retried = await start(store, { id: 'a-0', key: 'a' })
    await settle(store, retried, { type: 'retry', delayMs: 5, isBackoff: true })
    await advance(5)
    await add(store, { id: 'a-2', key: 'a' }, { id: 'a-1', key: 'a' }, { id: 'a-9', key: 'a', priority: 1 })
    assert.deepEqual(await claimIds(store), ['a-9', 'a-0', 'a-1', 'a-2'])
  },

  async 'a deferral holds its lane until then, and no other'(store, advance) {
    const lane = { kind: 'k', category: 'c', key: 't' }
    const task = await start(store, { id: 'held-1', ...lane })
    const others = [{ id: 'other-key', category: 'c', key: 'u' }, { id: 'other-category', key: 't' }, { id: 'no-key' }]
    await add(store, { id: 'held-2', ...lane }, ...others)
    await settle(store, task, { type: 'deferred', delayMs: 5000 })
    assert.equal((await laneOf(store, lane)).heldUntil, (await store.now()) + 5000)

    const found = await claim(store)
    assert.deepEqual(found.tasks.map(({ id }) => id).sort(), ['no-key', 'other-category', 'other-key'])
    assert.equal(found.nextAt, found.now + 5000, 'the end of the hold')
    await advance(4999)
    assert.deepEqual(await claimIds(store), [])
    await advance(1)
    assert.equal((await laneOf(store, lane)).heldUntil, undefined)
    assert.deepEqual(await claimIds(store), ['held-1'])
  },

  async 'a lane without a key is held alone too'(store, advance) {
    const task = await start(store, { id: 'a', category: 'x' })
    await add(store, { id: 'b', category: 'x' }, { id: 'c', category: 'y' }, { id: 'd' })
    await settle(store, task, { type: 'deferred', delayMs: 100 })
    assert.deepEqual(await claimIds(store), ['c', 'd'])
    await advance(100)
    assert.deepEqual(await claimIds(store), ['a'])
  },

  async 'a hold reaches work that comes later, and ends at the latest time that was asked for'(store, advance) {
    await add(store, { id: 'a' }, { id: 'b' })
    const [a, b] = (await claim(store)).tasks
    assert.ok(a && b)
    await settle(store, a, { type: 'deferred', delayMs: 5000 })
    await settle(store, b, { type: 'deferred', delayMs: 1000 })
    await addOne(store, { id: '0' })
    await advance(1000)
    assert.deepEqual(await claimIds(store), [])
    assert.equal((await claim(store)).nextAt, (await store.now()) + 4000)
    await advance(4000)
    assert.deepEqual(await claimIds(store), ['0'])
  },

  async 'the end of a hold is told for work that was ready before it'(store, advance) {
    const task = await start(store, { key: 't' })
    await add(store, { id: 'ready', key: 't' })
    await settle(store, task, { type: 'deferred', delayMs: 100 })
    await store.cancel([task.id])
    const { tasks, now, nextAt } = await claim(store)
    assert.deepEqual([tasks.length, nextAt], [0, now + 100])
    assert.equal((await claim(store, { kinds: ['l'] })).tasks.length, 0)
    await advance(100)
    assert.deepEqual(await claimIds(store), ['ready'])
  },

  async 'after a hold a lane starts with one task and doubles'(store, advance) {
    const task = await start(store)
    await add(store, ...Array.from({ length: 30 }, () => ({})))
    await settle(store, task, { type: 'deferred', delayMs: 100 })
    await advance(100)
    for (const expected of [1, 2, 4, 8]) {
      const { tasks } = await claim(store)
      assert.equal(tasks.length, expected)
      assert.deepEqual(await claimIds(store), [], 'not more before one of them has ended')
      for (const one of tasks) await settle(store, one, { type: 'succeeded' })
    }
  },

  async 'another deferral makes a lane start anew'(store, advance) {
    const task = await start(store)
    await add(store, ...Array.from({ length: 10 }, () => ({})))
    await settle(store, task, { type: 'deferred', delayMs: 100 })
    await advance(100)
    await settle(store, await claimOne(store), { type: 'succeeded' })
    const [first, second] = (await claim(store)).tasks
    assert.ok(first && second)
    await settle(store, first, { type: 'succeeded' })
    await settle(store, second, { type: 'deferred', delayMs: 100 })
    await advance(100)
    await claimOne(store)
  },

  async 'what began before a hold neither ends it nor speeds up the start after it'(store, advance) {
    await add(store, ...Array.from({ length: 20 }, () => ({})))
    const { tasks } = await claim(store, { limit: 6 })
    const [limited, ...others] = tasks
    assert.ok(limited)
    await settle(store, limited, { type: 'deferred', delayMs: 100 })
    for (const task of others.slice(0, 3)) await settle(store, task, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), [])
    await advance(100)
    for (const task of others.slice(3)) await settle(store, task, { type: 'succeeded' })
    await claimOne(store)
  },

  async 'an end without an attempt, or the decision on a lost one, does not speed up the start after a hold'(
    store,
    advance,
  ) {
    const ends: Outcome[] = [
      { type: 'dead', reason: 'ttl_expired' },
      { type: 'skipped', reason: 'nothing to do' },
      { type: 'succeeded', result: '1' },
      { type: 'advanced', to: 'next', value: '1', keep: false },
      { type: 'later', delayMs: 1 },
      RETRY,
    ]
    await settle(store, await start(store, { key: 'r' }), { type: 'deferred', delayMs: 100 })
    await add(store, ...ends.map(() => ({ key: 'r' })), { id: 'last', key: 'r', priority: -1 })
    await advance(100)
    const ramp = async () => (await store.standing('last', 1))?.ramp
    for (const outcome of ends) {
      assert.equal(await settleUncounted(store, await claimOne(store, { categories: [''] }), outcome), 'settled')
      assert.equal(await ramp(), 1, outcome.type)
    }
    await advance(1)
    await lose(store, advance, { categories: [''] })
    const lost = await claimOne(store, { categories: [''] })
    assert.ok(lost.isUndecided)
    await settle(store, lost, RETRY, FAILED)
    assert.equal(await ramp(), 1, 'the decision')
    await settle(store, await claimOne(store, { categories: [''] }), RETRY, FAILED)
    assert.equal(await ramp(), 2, 'an attempt')
  },

  async 'lanes are listed with what runs in them'(store) {
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' }, { id: 'c', key: 'u' }, { kind: 'l', category: 'c' })
    await claim(store, { limit: 2 })
    assertFields(await laneOf(store, { kind: 'k', key: 't' }), {
      kind: 'k',
      category: '',
      key: 't',
      isPaused: false,
      heldUntil: undefined,
      running: 1,
    })
    assert.equal((await store.lanes()).length, 3)
    assert.equal((await store.lanes({ kind: 'k' })).length, 2)
    assert.equal((await store.lanes({ category: 'c' })).length, 1)
    assert.equal((await store.lanes({ key: '' })).length, 1)
    assert.deepEqual(await store.lanes({ kind: 'unknown' }), [])
  },
}

/** Tasks of one keyed lane, their ids in their order. */
function numbered(key: string, count: number) {
  return Array.from({ length: count }, (_, index) => ({ key, id: `${key}-${String(index).padStart(3, '0')}` }))
}

function countByLane(ids: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const id of ids) counts[laneName(id)] = (counts[laneName(id)] ?? 0) + 1
  return counts
}

function assertExactWithin(ids: readonly string[]): void {
  for (const lane of new Set(ids.map(laneName))) {
    const within = ids.filter(id => laneName(id) === lane)
    assert.deepEqual(within, within.toSorted(), `the lane ${lane} is out of order`)
  }
}

function laneName(id: string): string {
  return id.split('-')[0] ?? ''
}
