import assert from 'node:assert/strict'
import type { NewTask } from '../../src/store/index.js'
import type { StoreContract } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  callsDuring,
  claim,
  claimIds,
  claimOne,
  get,
  kill,
  LEASE_MS,
  laneOf,
  lose,
  loseTwice,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
} from './harness.js'

const BLOCK = { isOrdered: true, onDead: 'block' } as const
const ANN = { who: 'ann', why: 'a test' } as const
const LANE = { kind: 'k', category: '', key: 't' } as const

/** A blocked lane: the task `a` is dead, and `b` and `c` wait behind it. */
async function blocked(store: StoreContract): Promise<void> {
  await store.limit({ kind: 'k' }, BLOCK)
  await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' }, { id: 'c', key: 't' })
  await kill(store, await claimOne(store))
  assert.deepEqual(await claimIds(store), [])
}

async function blockedBy(store: StoreContract): Promise<string | undefined> {
  return (await laneOf(store, { key: 't' })).blockedBy
}

async function reclaim(store: StoreContract): Promise<string> {
  const task = await claimOne(store)
  await settle(store, task, { type: 'succeeded' })
  return task.id
}

/** A task that was tried elsewhere, and died of it. */
function letter(task: Partial<NewTask>): Partial<NewTask> {
  const verdict = { class: 'final', code: 'x' } as const
  const attempt = { attempt: 1, startedAt: 1, endedAt: 1, worker: 'w', verdict }
  return { key: 't', ...task, tried: { outcome: { type: 'dead', reason: 'final_error' }, attempt } }
}

/** Ordered lanes that stop at their dead letters. */
export const DEAD_HEADS: StoreBehaviours = {
  async 'a lane stops at its dead letter, and says which, and other lanes go on'(store) {
    await blocked(store)
    assertFields(await laneOf(store, { key: 't' }), {
      blockedBy: 'a',
      heldUntil: undefined,
      running: 0,
      limits: { concurrency: 1, isOrdered: true, onDead: 'block' },
    })
    await addOne(store, { id: 'other', key: 'u' })
    assert.deepEqual(await claimIds(store), ['other'])
    assertFields(await laneOf(store, { key: 'u' }), { blockedBy: undefined })
    const { nextAt } = await claim(store)
    assert.equal(nextAt, undefined, 'no time ends it')
  },

  async 'a redriven letter runs first, in its place, and the others follow'(store) {
    await blocked(store)
    assert.ok((await callsDuring(store, () => store.redrive(['a'], ANN))) > 0)
    assert.equal(await blockedBy(store), undefined)
    assert.deepEqual([await reclaim(store), await reclaim(store), await reclaim(store)], ['a', 'b', 'c'])
  },

  async 'a letter that dies again stops the lane again'(store) {
    await blocked(store)
    await store.redrive(['a'], ANN)
    await kill(store, await claimOne(store))
    assert.equal(await blockedBy(store), 'a')
    assert.deepEqual(await claimIds(store), [])
  },

  async 'a discarded letter lets the lane go on, and wakes whoever claims'(store) {
    await blocked(store)
    assert.ok((await callsDuring(store, () => store.discard(['a'], ANN))) > 0)
    assert.equal(await blockedBy(store), undefined)
    assert.deepEqual([await reclaim(store), await reclaim(store)], ['b', 'c'])
  },

  async 'a second letter stops the lane once the first is out of the way'(store) {
    await store.limit({ kind: 'k' }, BLOCK)
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' }, { id: 'c', key: 't' })
    await kill(store, await claimOne(store))
    await store.redrive(['a'], ANN)
    assert.equal(await reclaim(store), 'a')
    await kill(store, await claimOne(store))
    assert.equal(await blockedBy(store), 'b')
    await store.discard(['b'], ANN)
    assert.equal(await reclaim(store), 'c')
  },

  async 'tasks before the letter go on, and those behind it wait'(store) {
    await blocked(store)
    await addOne(store, { id: 'urgent', key: 't', priority: 1 })
    assert.equal(await reclaim(store), 'urgent')
    assert.deepEqual(await claimIds(store), [])
    assert.deepEqual((await store.standing('b', 9))?.blockedBy, 'a')
  },

  async 'every waiting task behind it says what it waits for, and the letter does not'(store) {
    await blocked(store)
    const blocking = async (id: string) => (await store.standing(id, 9))?.blockedBy
    assert.deepEqual([await blocking('a'), await blocking('b'), await blocking('c')], [undefined, 'a', 'a'])
    await store.redrive(['a'], ANN)
    assert.deepEqual([await blocking('a'), await blocking('b')], [undefined, undefined])
  },

  async 'its waiting tasks count as held'(store) {
    await blocked(store)
    const [kind] = (await store.stats()).kinds
    assertFields(kind, { waiting: 2, held: 2, ready: 0, limited: 0, dead: 1, readySince: undefined })
    await addOne(store, { id: 'urgent', key: 't', priority: 1 })
    const [before] = (await store.stats()).kinds
    assertFields(before, { waiting: 3, held: 0, ready: 1, dead: 1 })
  },

  async 'letters from before the limit do not stop the lane, and without the limit none does'(store) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' }, { id: 'c', key: 't' })
    await kill(store, await claimOne(store))
    await store.limit({ kind: 'k' }, BLOCK)
    const next = await claimOne(store)
    assert.equal(next.id, 'b')
    await kill(store, next)
    assert.equal(await blockedBy(store), 'b')
    assert.ok((await callsDuring(store, () => store.limit(LANE, { isOrdered: true }))) > 0)
    assert.equal(await blockedBy(store), undefined)
    assert.equal(await reclaim(store), 'c')
  },

  async 'a task that its worker killed, or that was out of time, stops it like any other'(store, advance) {
    await store.limit({ kind: 'k' }, BLOCK)
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 't' })
    await lose(store, advance)
    const task = await claimOne(store)
    assertFields(task, { id: 'a', isUndecided: true })
    await settleUncounted(store, task, { type: 'dead', reason: 'losses_exhausted' })
    assert.equal(await blockedBy(store), 'a')
    assert.deepEqual(await claimIds(store), [])
  },

  async 'a task that was tried elsewhere and is dead at once stops it'(store) {
    await store.limit({ kind: 'k' }, BLOCK)
    await addOne(store, letter({ id: 'a' }))
    await addOne(store, { id: 'b', key: 't' })
    assert.equal(await blockedBy(store), 'a')
    assert.deepEqual(await claimIds(store), [])
  },

  async 'what must run alone waits behind it too'(store, advance) {
    await store.limit({ kind: 'k' }, BLOCK)
    await addOne(store, { id: 'killer', key: 't' })
    await loseTwice(store, advance)
    await addOne(store, letter({ id: 'letter', priority: 1 }))
    const { tasks, isAloneWaiting } = await claim(store, { isIdle: true })
    assert.deepEqual([tasks, isAloneWaiting], [[], false])
    await store.discard(['letter'], ANN)
    assert.deepEqual(await claimIds(store, { isIdle: true }), ['killer'])
  },

  async 'an operation that redrove the letter is undone: it stops the lane again'(store) {
    await blocked(store)
    const { operations } = store
    const set = { filter: { kind: 'k' }, until: await store.now() }
    const { id, progress } = await operations.create({ act: 'redrive', set, by: ANN, settings: {} })
    const { token = '' } = (await operations.take(id, 'driver', LEASE_MS)) ?? {}
    await operations.step(id, token, { leaseMs: LEASE_MS, move: ['a'], status: 'stopped', progress })
    assert.equal(await blockedBy(store), undefined)
    await operations.undo(id, { limit: 10 }, ANN)
    assertFields(await get(store, 'a'), { status: 'dead' })
    assert.equal(await blockedBy(store), 'a')
    assert.deepEqual(await claimIds(store), [])
  },

  async 'the letter stays when others are pruned, and so does its lane, until it blocks no more'(store, advance) {
    await blocked(store)
    await store.cancel(['b', 'c'], ANN)
    await kill(store, await start(store, { id: 'plain', key: 'u' }))
    await store.limit({ kind: 'k', category: '', key: 'u' }, {})
    await advance(10_000)
    const keep = { endedMs: 0, deadMs: 0 }
    assert.equal((await store.prunable(keep)).deadLetters, 1)
    await store.prune(keep, 100)
    assert.equal(await store.get('plain'), undefined)
    assert.equal((await store.prunable(keep)).deadLetters, 0)
    await addOne(store, { id: 'late', key: 't' })
    assert.deepEqual(await claimIds(store), [])
    assert.equal(await blockedBy(store), 'a')
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await store.prune(keep, 100)
    assert.equal(await store.get('a'), undefined)
    assert.equal(await reclaim(store), 'late')
  },

  async 'the pruning of many letters is not held up by some that block'(store, advance) {
    await store.limit({ kind: 'k' }, BLOCK)
    await add(store, { id: 'a', key: 'a' }, { id: 'b', key: 'b' }, { id: 'c', key: 'c' })
    for (const task of (await claim(store)).tasks) await kill(store, task)
    await store.limit({ kind: 'k', category: '', key: 'c' }, {})
    await advance(1000)
    assert.equal(await store.prune({ deadMs: 0 }, 1), 1)
    assert.equal(await store.get('c'), undefined)
    assert.equal(await store.prune({ deadMs: 0 }, 1), 0)
  },

  async 'a lane that stops at dead letters is made again with the limits for it'(store) {
    await store.limit({ kind: 'k' }, BLOCK)
    await addOne(store, { key: 'new' })
    assertFields(await laneOf(store, { key: 'new' }), { limits: { concurrency: 1, isOrdered: true, onDead: 'block' } })
    assert.deepEqual((await store.laneRules({ kind: 'k' })).limits, [
      { kind: 'k', limits: { concurrency: 1, isOrdered: true, onDead: 'block' } },
    ])
  },

  async 'only an ordered lane can stop at a dead letter'(store) {
    await assert.rejects(store.limit({ kind: 'k' }, { onDead: 'block' }), /isOrdered/)
    const wrong: unknown = 'pass'
    await assert.rejects(store.limit({ kind: 'k' }, { isOrdered: true, onDead: wrong as 'block' }), /'block'/)
  },
}
