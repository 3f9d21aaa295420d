import assert from 'node:assert/strict'
import type { Room } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  claim,
  claimIds,
  claimOne,
  loseTwice,
  type StoreBehaviours,
  settle,
} from './harness.js'

const K: Room = { kinds: ['k'] }
const L: Room = { kinds: ['l'] }

export const ROOMS: StoreBehaviours = {
  async 'no rooms, no work'(store) {
    await add(store, {}, { runAt: (await store.now()) + 10 })
    assertFields(await claim(store, { rooms: [] }), { tasks: [], isAloneWaiting: false })
    assert.deepEqual(await claimIds(store, { rooms: [{ kinds: [] }] }), [])
  },

  async 'rooms are served in the order given, and the order is exact within each'(store) {
    await add(
      store,
      { id: 'k-2' },
      { id: 'l-2', kind: 'l' },
      { id: 'k-1', priority: 1 },
      { id: 'l-1', kind: 'l', priority: 9 },
    )
    assert.deepEqual(await claimIds(store, { rooms: [K, L] }), ['k-1', 'k-2', 'l-1', 'l-2'])
  },

  async 'a room gives no more than its limit, and leaves the rest of the claim to the others'(store) {
    await add(store, ...numbered('k', 5), ...numbered('l', 5), ...numbered('m', 5))
    const rooms = [{ ...K, limit: 2 }, { ...L, limit: 0 }, { kinds: ['m'] }]
    assert.deepEqual(await claimIds(store, { rooms, limit: 4 }), ['k-0', 'k-1', 'm-0', 'm-1'])
    assert.deepEqual(await claimIds(store, { rooms }), ['k-2', 'k-3', 'm-2', 'm-3', 'm-4'])
  },

  async 'the limit of a claim is over all rooms, whatever theirs are'(store) {
    await add(store, ...numbered('k', 5), ...numbered('l', 5))
    const rooms = [
      { ...K, limit: 3 },
      { ...L, limit: 100 },
    ]
    assert.deepEqual(await claimIds(store, { rooms, limit: 5 }), ['k-0', 'k-1', 'k-2', 'l-0', 'l-1'])
    assert.deepEqual(await claimIds(store, { rooms, limit: 0 }), [])
  },

  async 'a task belongs to the first room that names it'(store) {
    await add(store, ...numbered('k', 4), { id: 'l', kind: 'l' })
    const rooms = [{ ...K, limit: 1 }, { kinds: ['l', 'k'] }]
    assert.deepEqual(await claimIds(store, { rooms }), ['k-0', 'l'])
    const same = [
      { ...K, limit: 1 },
      { ...K, limit: 1 },
    ]
    assert.deepEqual(await claimIds(store, { rooms: same }), ['k-1'])
  },

  async 'rooms that share a kind share it by category'(store) {
    const categories = ['x', 'y', 'z', '']
    await add(store, ...categories.flatMap(category => numbered('k', 2, category)), { id: 'l', kind: 'l' })
    const rooms = [
      { kinds: ['k', 'm'], categories: ['x'], limit: 1 },
      { kinds: ['k'], categories: ['y', 'x'], limit: 1 },
      { kinds: ['l', 'k'] },
    ]
    assert.deepEqual(await claimIds(store, { rooms }), ['kx-0', 'ky-0', 'k-0', 'k-1', 'kz-0', 'kz-1', 'l'])
    assert.deepEqual(await claimIds(store, { rooms }), ['kx-1', 'ky-1'])
  },

  async 'the lanes of a room take turns from claim to claim, whatever other rooms get'(store) {
    for (const key of ['a', 'b', 'c']) {
      await add(store, ...numbered('k', 10).map(task => ({ ...task, id: `k${key}${task.id}`, key })))
      await add(store, ...numbered('l', 10).map(task => ({ ...task, id: `l${key}${task.id}`, key })))
    }
    await add(store, ...numbered('k', 10), ...numbered('l', 10))
    const counts: Record<string, number> = {}
    const rooms = [
      { ...K, limit: 1 },
      { ...L, limit: 1 },
    ]
    for (let turn = 0; turn < 12; turn++) {
      const { tasks } = await claim(store, { rooms, limit: 2 })
      for (const { kind, key } of tasks) counts[kind + key] = (counts[kind + key] ?? 0) + 1
    }
    const each = { k: 3, ka: 3, kb: 3, kc: 3, l: 3, la: 3, lb: 3, lc: 3 }
    assert.deepEqual(Object.fromEntries(Object.entries(counts).sort()), each)
  },

  async 'an idle worker gets what must run alone from the first room that has it, and nothing else'(store, advance) {
    for (const kind of ['l', 'k']) await addOne(store, { id: kind, kind })
    await loseTwice(store, advance, { kinds: ['k', 'l'] })
    await add(store, { id: 'other', priority: 9 })
    const first = await claimOne(store, { rooms: [L, K], isIdle: true })
    assertFields(first, { id: 'l', isUndecided: true })
    assert.equal((await claimOne(store, { rooms: [L, K], isIdle: true })).id, 'k')
    assert.equal((await claimOne(store, { rooms: [L, K], isIdle: true })).id, 'other')
  },

  async 'what must run alone is told from any room, and given by none that is full'(store, advance) {
    await addOne(store, { id: 'lost', kind: 'l' })
    await loseTwice(store, advance, { kinds: ['l'] })
    await add(store, { id: 'other' })
    const busy = await claim(store, { rooms: [K, { ...L, limit: 0 }] })
    assertFields(busy, { isAloneWaiting: true })
    assert.deepEqual(
      busy.tasks.map(({ id }) => id),
      ['other'],
    )
    const full = await claim(store, { rooms: [K, { ...L, limit: 0 }], isIdle: true })
    assertFields(full, { tasks: [], isAloneWaiting: true })
    assert.equal((await claim(store, { rooms: [K] })).isAloneWaiting, false)
    assert.equal((await claimOne(store, { rooms: [K, L], isIdle: true })).id, 'lost')
  },

  async 'the next time is the earliest of all rooms'(store) {
    const now = await store.now()
    await add(store, { runAt: now + 500 }, { kind: 'l', runAt: now + 300 }, { kind: 'm', runAt: now + 400 })
    assert.equal((await claim(store, { rooms: [K, L, { kinds: ['m'] }] })).nextAt, now + 300)
  },

  async 'the end of a hold is told from any room'(store) {
    await add(store, { kind: 'l' }, { kind: 'l' })
    const [task] = (await claim(store, { rooms: [L], limit: 1 })).tasks
    assert.ok(task)
    await settle(store, task, { type: 'deferred', delayMs: 700 })
    const { tasks, now, nextAt } = await claim(store, { rooms: [K, L] })
    assert.deepEqual([tasks.length, nextAt], [0, now + 700])
  },
}

/** Tasks of one kind and category, without a key, their ids in their order. */
function numbered(kind: string, count: number, category = '') {
  return Array.from({ length: count }, (_, index) => ({ kind, category, id: `${kind}${category}-${index}` }))
}
