import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { StoreContract } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  assertSame,
  claim,
  get,
  kill,
  type StoreBehaviours,
  settle,
  start,
} from './harness.js'
import { runOf, take } from './runs/harness.js'

const DAY_MS = 24 * 60 * 60 * 1000

const ALL = { endedMs: 1000, deadMs: 1000, keysMs: 1000, auditMs: 1000 }

/** One task in each state, each named after it. */
async function oneOfEach(store: StoreContract): Promise<void> {
  const states = ['succeeded', 'skipped', 'dead', 'cancelled'] as const
  for (const id of states) {
    const task = await start(store, { id })
    if (id === 'dead') await kill(store, task)
    else if (id === 'skipped') await settle(store, task, { type: id, reason: 'r' })
    else await settle(store, task, { type: id })
  }
  await start(store, { id: 'running' })
  await add(store, { id: 'waiting' }, { id: 'scheduled', runAt: (await store.now()) + 60_000 })
}

/**
 * Prunes until these lanes are left. Each prune takes a step, and a database may keep a lane until others' transactions that
 * might use it have ended: nobody knows when that is.
 */
async function pruneLanes(store: StoreContract, advance: (ms: number) => Promise<void>, left: readonly string[]) {
  const keys = async () => (await store.lanes()).map(({ key }) => key)
  for (let n = 0; n < 3 || (n < 200 && (await keys()).length > left.length); n++) {
    if (n < 3) await advance(DAY_MS)
    else await sleep(100)
    await store.prune(ALL, 100)
  }
  assertSame(await keys(), left)
}

const idsOf = async (store: StoreContract) => (await store.list({}, { limit: 100 })).items.map(({ id }) => id)

export const PRUNE: StoreBehaviours = {
  async 'tasks that ended are forgotten with their ledger; dead letters and what is alive stay'(store, advance) {
    await oneOfEach(store)
    await advance(1000)
    assert.equal(await store.prune({ endedMs: 1000 }, 100), 3)
    assertSame(await idsOf(store), ['dead', 'running', 'waiting', 'scheduled'])
    assert.equal(await store.get('succeeded'), undefined)
    assert.deepEqual(await store.ledger('succeeded'), [])
    assert.equal((await store.ledger('dead')).length, 1)
  },

  async 'dead letters are forgotten where that is asked for, and nothing else is'(store, advance) {
    await oneOfEach(store)
    await advance(1000)
    assert.equal(await store.prune({ deadMs: 1000 }, 100), 1)
    assertSame(await idsOf(store), ['succeeded', 'skipped', 'cancelled', 'running', 'waiting', 'scheduled'])
  },

  async 'each status has its own time, and that of all where it has none'(store, advance) {
    await oneOfEach(store)
    await advance(1000)
    const keep = { endedMs: 1000, succeededMs: 5000, deadMs: 2000 }
    assertFields(await store.prunable(keep), { tasks: 2, deadLetters: 0 })
    assert.equal(await store.prune(keep, 100), 2)
    assertSame(await idsOf(store), ['succeeded', 'dead', 'running', 'waiting', 'scheduled'])
    await advance(3999)
    assert.equal(await store.prune({ succeededMs: 5000 }, 100), 0)
    await advance(1)
    assert.equal(await store.prune({ succeededMs: 5000 }, 100), 1)
    assertSame(await idsOf(store), ['dead', 'running', 'waiting', 'scheduled'])
  },

  async 'of tasks of which there are too many, the oldest are forgotten, a few at a time'(store, advance) {
    for (let n = 0; n < 7; n++) {
      const succeeded = await start(store, { id: `s${n}`, key: `lane-${n % 3}` })
      await settle(store, succeeded, { type: 'succeeded' })
      if (n < 3) await kill(store, await start(store, { id: `d${n}`, kind: 'other' }))
      await advance(10)
    }
    await add(store, { id: 'waits' })
    const keep = { counts: { succeeded: 2, dead: 1 } }
    assertFields(await store.prunable(keep), { tasks: 5, deadLetters: 2 })
    assert.equal(await store.prune(keep, 3), 3)
    assertSame(await idsOf(store), ['s3', 's4', 's5', 's6', 'd0', 'd1', 'd2', 'waits'])
    assertFields(await store.prunable(keep), { tasks: 2, deadLetters: 2 })
    assert.equal(await store.prune(keep, 100), 4)
    assertSame(await idsOf(store), ['s5', 's6', 'd2', 'waits'])
    assert.equal(await store.prune(keep, 100), 0)
    assertFields(await store.count({}), { waiting: 1, succeeded: 2, dead: 1 })
    // Those whose time is over count to what is too much.
    assertFields(await store.prunable({ succeededMs: 10, counts: { succeeded: 1 } }), { tasks: 2 })
    assert.equal(await store.prune({ succeededMs: 20, counts: { succeeded: 1 } }, 100), 1)
    assertSame(await idsOf(store), ['s6', 'd2', 'waits'])
    assert.equal(await store.prune({ counts: { succeeded: 0, cancelled: 0 } }, 100), 1)
  },

  async 'many that prune at once delete no more than are too many'(store, advance) {
    for (let n = 0; n < 40; n++) await settle(store, await start(store), { type: 'skipped', reason: 'r' })
    await advance(1000)
    await Promise.all(Array.from({ length: 5 }, () => store.prune({ counts: { skipped: 30 } }, 8)))
    assert.equal((await store.count({})).skipped, 30)
  },

  async 'tasks that must stay are counted, and stay, although there are too many'(store, advance) {
    await store.limit({ kind: 'k' }, { isOrdered: true, onDead: 'block' })
    await kill(store, await start(store, { id: 'blocks' }))
    await add(store, { id: 'behind' })
    await store.batches.fill('b', { position: 0, tasks: [{ kind: 'member', payload: '1' }], isEnd: false })
    const { tasks } = await claim(store, { kinds: ['member'] })
    for (const task of tasks) await settle(store, task, { type: 'succeeded' })
    await advance(1000)
    await settle(store, await start(store, { id: 'plain', kind: 'other' }), { type: 'succeeded' })
    const keep = { counts: { succeeded: 1, dead: 0 } }
    assertFields(await store.prunable(keep), { tasks: 1, deadLetters: 0 })
    assert.equal(await store.prune(keep, 100), 1)
    assertFields(await store.count({}), { waiting: 1, succeeded: 1, dead: 1 })
    assert.equal(await store.get('plain'), undefined)
    assert.equal(await store.prune({ counts: { succeeded: 0 } }, 100), 0)
  },

  async 'items of runs are not counted, and go with their run alone'(store, advance) {
    await runOf(store, 3)
    const tasks = await take(store, 3)
    for (const task of tasks) await settle(store, task, { type: 'skipped', reason: 'r' })
    await advance(1000)
    assert.equal(await store.prune({ skippedMs: 0, counts: { skipped: 0 } }, 100), 0)
    assert.equal((await store.count({})).skipped, tasks.length)
  },

  async 'a count that cannot be one is refused'(store) {
    const bad = [{ succeeded: -1 }, { dead: 1.5 }, JSON.parse('{"waiting":1}')]
    for (const counts of bad) await assert.rejects(store.prune({ counts }, 1), { name: 'OptionError' })
  },

  async 'a task is forgotten exactly when its time is over, counted from its end'(store, advance) {
    const task = await start(store, { id: 'a' })
    await advance(5000)
    await settle(store, task, { type: 'succeeded' })
    await advance(999)
    assert.equal(await store.prune(ALL, 100), 0)
    await advance(1)
    assert.equal(await store.prune(ALL, 100), 1)
    assert.equal(await store.prune(ALL, 100), 0)
  },

  async 'what a prune would delete is counted, and is what it deletes'(store, advance) {
    await oneOfEach(store)
    await store.audit.append(['1', '2'])
    await store.once('k', () => 1)
    await advance(1000)
    const none = { tasks: 0, deadLetters: 0, runs: 0, items: 0, keys: 0, records: 0 }
    assert.deepEqual(await store.prunable({}), none)
    assert.deepEqual(await store.prunable({ ...ALL, endedMs: 1001 }), { ...none, deadLetters: 1, keys: 1, records: 2 })
    assert.deepEqual(await store.prunable(ALL), { ...none, tasks: 3, deadLetters: 1, keys: 1, records: 2 })
    assert.equal(await store.prune(ALL, 100), 7)
    assert.deepEqual(await store.prunable(ALL), none)
  },

  async 'what is not asked for is kept for ever'(store, advance) {
    await oneOfEach(store)
    await store.audit.append(['1'])
    await store.once('k', () => 1)
    await advance(1e10)
    assert.equal(await store.prune({}, 100), 0)
    assert.equal((await idsOf(store)).length, 7)
    assert.equal(await store.once('k', () => 2), 1)
    assert.deepEqual((await store.audit.page({ limit: 10 })).items, ['1'])
  },

  async 'no more than the limit goes at once, of all sorts together'(store, advance) {
    const ids = await add(store, ...Array.from({ length: 7 }, () => ({})))
    for (const task of (await claim(store)).tasks) await settle(store, task, { type: 'succeeded' })
    for (const id of ids) await store.once(id, () => 1)
    await store.audit.append(ids)
    await advance(1000)
    const gone: number[] = []
    for (let count = 5; count === 5; gone.push(count)) count = await store.prune(ALL, 5)
    assert.deepEqual(gone, [5, 5, 5, 5, 1])
    assert.deepEqual(await idsOf(store), [])
  },

  async 'the id of a forgotten task is free: a task with it is new'(store, advance) {
    await kill(store, await start(store, { id: 'mine', payload: '1' }))
    await advance(1000)
    await store.prune(ALL, 100)
    assert.deepEqual(await store.enqueue([{ id: 'mine', kind: 'k', payload: '2' }]), [
      { id: 'mine', isNew: true, outcome: 'created' },
    ])
    assert.deepEqual(await store.ledger('mine'), [])
    const { tasks } = await claim(store)
    assert.deepEqual(
      tasks.map(({ id, payload }) => [id, payload]),
      [['mine', '2']],
    )
  },

  async 'a settlement for a forgotten task is stale'(store, advance) {
    const task = await start(store, { id: 'a' })
    await settle(store, task, { type: 'cancelled' })
    await advance(1000)
    await store.prune(ALL, 100)
    await addOne(store, { id: 'a' })
    assert.equal(await settle(store, task, { type: 'succeeded' }), 'stale')
    assert.equal((await get(store, 'a')).status, 'waiting')
  },

  async 'what was cancelled before its time and forgotten does not come back'(store, advance) {
    const now = await store.now()
    await add(store, { id: 'a', runAt: now + 5000 }, { id: 'b', runAt: now + 5000 })
    await store.cancel(['a'])
    await advance(1000)
    assert.equal(await store.prune(ALL, 100), 1)
    await advance(4000)
    assert.deepEqual(
      (await claim(store)).tasks.map(({ id }) => id),
      ['b'],
    )
  },

  async 'done keys are forgotten, and keys in progress stay'(store, advance) {
    const fingerprint = 'f'.repeat(64)
    const owned = await store.idempotency.claim('owned', { fingerprint, leaseMs: 10 })
    await store.once('done', () => 1)
    await advance(999)
    assert.equal(await store.prune(ALL, 100), 0)
    await advance(1)
    assert.equal(await store.prune(ALL, 100), 1)
    assert.equal(await store.once('done', () => 2), 2)
    assert.ok(owned.state === 'fresh')
    assert.equal(await store.idempotency.complete('owned', owned.token, '1'), true)
    await advance(999)
    assert.equal(await store.prune(ALL, 100), 0, 'the time is counted from when the work was done')
  },

  async 'who reads the audit records on misses none when older ones are forgotten'(store, advance) {
    await store.audit.append(['1', '2', '3'])
    const { next } = await store.audit.page({ limit: 2 })
    assert.ok(next !== undefined)
    await advance(500)
    await store.audit.append(['4'])
    await advance(500)
    assert.equal(await store.prune(ALL, 100), 3)
    assert.deepEqual((await store.audit.page({ limit: 10 })).items, ['4'])
    assert.deepEqual((await store.audit.page({ limit: 10, after: next })).items, ['4'])
    await advance(500)
    assert.equal(await store.prune(ALL, 100), 1)
    await store.audit.append(['5'])
    assert.deepEqual((await store.audit.page({ limit: 10, after: next })).items, ['5'])
  },

  async 'a lane with a key is forgotten once it has no tasks, and made again with the rules for it'(store, advance) {
    await store.limit({ kind: 'k' }, { isOrdered: true })
    await store.limit({ kind: 'k', category: '', key: 'limited' }, { concurrency: 3 })
    await store.pause({ kind: 'k', key: 'paused' }, { isPaused: true })
    await add(store, { id: 'paused', key: 'paused' })
    for (const key of ['a', 'b', 'limited', '']) await settle(store, await start(store, { key }), { type: 'succeeded' })
    await store.cancel(['paused'])
    await settle(store, await start(store, { key: 'last' }), { type: 'succeeded' })
    await add(store, { key: 'waits' })
    await pruneLanes(store, advance, ['limited', '', 'waits', 'paused'])
    await add(store, { key: 'a' }, { key: 'a' })
    assert.equal((await claim(store, { limit: 10, kinds: ['k'] })).tasks.filter(({ key }) => key === 'a').length, 1)
    assert.equal((await store.lanes()).find(({ key }) => key === 'a')?.limits.isOrdered, true)
  },

  async 'a lane that is held, or starts slowly after a hold, is kept until that is over'(store, advance) {
    await settle(store, await start(store, { key: 'a' }), { type: 'deferred', delayMs: 5000 })
    await add(store, { key: 'z' })
    const [id = ''] = (await store.list({}, { limit: 10 })).items.filter(({ key }) => key === 'a').map(({ id }) => id)
    await store.cancel([id])
    const keys = async () => {
      await store.prune({ endedMs: 0 }, 100)
      return (await store.lanes()).map(({ key }) => key)
    }
    assertSame(await keys(), ['a', 'z'])
    await advance(5000)
    assertSame(await keys(), ['a', 'z'])
    await pruneLanes(store, advance, ['z'])
  },
}
