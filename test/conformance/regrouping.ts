import assert from 'node:assert/strict'
import type { AttemptEntry, FailureGroup, StoreContract } from '../../src/store/internal.js'
import {
  addOne,
  assertFields,
  claimOne,
  get,
  groupOf,
  type StoreBehaviours,
  settle,
  start,
  TIMED_OUT,
} from './harness.js'

const dead = { type: 'dead', reason: 'attempts_exhausted' } as const

/** A dead letter in a group. */
async function died(
  store: StoreContract,
  id: string,
  group: FailureGroup,
  more: Partial<AttemptEntry> = {},
): Promise<void> {
  await settle(store, await start(store, { id }), dead, { verdict: TIMED_OUT, error: 'Error: x', group, ...more })
}

/** Makes this many groups of the kind `k`, each with a dead letter. */
async function fill(store: StoreContract, count: number): Promise<void> {
  await store.enqueue(
    Array.from({ length: count }, (_, n) => {
      const attempt = { attempt: 1, startedAt: 0, endedAt: 1, worker: 'w', verdict: TIMED_OUT, group: groupOf(`g${n}`) }
      return { id: `t${n}`, kind: 'k', payload: '1', tried: { outcome: dead, attempt } }
    }),
  )
}

export const REGROUPING: StoreBehaviours = {
  async 'a group that is its own heir stays as it is, even without tasks'(store) {
    await addOne(store)
    const failure = { verdict: TIMED_OUT, error: 'Error: x', group: groupOf('a') }
    await settle(store, await claimOne(store), { type: 'retry', delayMs: 0, isBackoff: true }, failure)
    await settle(store, await claimOne(store), { type: 'skipped', reason: 'r' })
    const before = await store.groups.get('a')
    assert.equal(await store.groups.regroup({ from: 'a', heir: groupOf('a'), moves: [] }), 0)
    assert.ok(before !== undefined)
    assert.deepEqual(await store.groups.get('a'), before)
  },

  async 'no heir is made of a group that is not there'(store) {
    await died(store, 'b', groupOf('a'))
    const heir = groupOf('h')
    assert.equal(await store.groups.regroup({ from: 'gone', heir, moves: [{ task: 'b', to: heir }] }), 0)
    assert.equal(await store.groups.get('h'), undefined)
    assertFields(await get(store, 'b'), { group: 'a' })
  },

  async 'of several moves of a task the first one counts, and no group is made for the others'(store) {
    await died(store, 'b', groupOf('a'))
    const moves = ['z', 'y', 'a'].map(id => ({ task: 'b', to: groupOf(id) }))
    assert.equal(await store.groups.regroup({ from: 'a', moves }), 1)
    assertFields(await get(store, 'b'), { group: 'z' })
    assert.equal(await store.groups.get('y'), undefined)
    assertFields(await store.groups.get('a'), { dead: 0 })
  },

  async 'a group that is made has the facts of the first move'(store) {
    for (const id of ['b', 'c']) await died(store, id, groupOf('a'))
    const moves = ['c', 'b'].map(task => ({ task, to: { ...groupOf('s'), pattern: `of ${task}` } }))
    assert.equal(await store.groups.regroup({ from: 'a', moves }), 2)
    assertFields(await store.groups.get('s'), { pattern: 'of c', seen: 2, dead: 2 })
  },

  async 'the first moves get the last places of a kind, and groups of lost and other failures need none'(store) {
    await fill(store, 999)
    for (const id of ['b', 'c', 'd', 'e']) await died(store, id, groupOf('g7'))
    const lost = { ...groupOf('lost:k'), code: 'lost' }
    const moves = [
      { task: 'b', to: groupOf('z') },
      { task: 'c', to: groupOf('y') },
      { task: 'd', to: lost },
      { task: 'e', to: groupOf('other:k:timeout') },
    ]
    assert.equal(await store.groups.regroup({ from: 'g7', moves }), 3)
    assertFields(await get(store, 'b'), { group: 'z' })
    assertFields(await get(store, 'c'), { group: 'g7' })
    assert.equal(await store.groups.get('y'), undefined)
    assertFields(await store.groups.get('lost:k'), { seen: 1, dead: 1 })
    assertFields(await store.groups.get('other:k:timeout'), { seen: 1, dead: 1 })
  },

  async 'a group that tasks are split off to was seen when their failures ended'(store, advance) {
    const at = await store.now()
    await died(store, 'late', groupOf('a'), { endedAt: at + 500 })
    await died(store, 'early', groupOf('a'), { endedAt: at - 500 })
    await advance(1000)
    const to = groupOf('s')
    const moves = ['late', 'early'].map(task => ({ task, to }))
    assert.equal(await store.groups.regroup({ from: 'a', moves: moves.slice(0, 1) }), 1)
    assertFields(await store.groups.get('s'), { firstSeenAt: at + 500, lastSeenAt: at + 500 })
    assert.equal(await store.groups.regroup({ from: 'a', moves }), 1)
    assertFields(await store.groups.get('s'), { firstSeenAt: at - 500, lastSeenAt: at + 500 })
  },

  async 'an heir was seen when its group was, whenever the failures of the tasks ended'(store, advance) {
    const firstSeenAt = await store.now()
    await died(store, 'b', groupOf('a'), { endedAt: firstSeenAt - 500 })
    await advance(1000)
    await died(store, 'c', groupOf('a'), { endedAt: firstSeenAt + 2000 })
    const heir = groupOf('h')
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: [{ task: 'b', to: heir }] }), 1)
    assertFields(await store.groups.get('h'), { firstSeenAt, lastSeenAt: firstSeenAt + 1000 })
    // All that is left was seen by the heir.
    assertFields(await store.groups.get('a'), { firstSeenAt, lastSeenAt: firstSeenAt, seen: 0, dead: 1 })
    assert.equal(await store.groups.regroup({ from: 'a', heir, moves: [{ task: 'c', to: heir }] }), 1)
    assertFields(await store.groups.get('h'), { firstSeenAt, lastSeenAt: firstSeenAt + 1000, seen: 2, dead: 2 })
  },
}
