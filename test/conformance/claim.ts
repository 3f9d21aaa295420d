import assert from 'node:assert/strict'
import {
  add,
  addOne,
  assertFields,
  assertSame,
  claim,
  claimIds,
  claimOne,
  get,
  type StoreBehaviours,
  settle,
  start,
  TIMED_OUT,
} from './harness.js'

export const CLAIM: StoreBehaviours = {
  async 'a claimed task runs: its next time is cleared, its counters are kept'(store, advance) {
    const task = await start(store)
    await settle(store, task, { type: 'retry', delayMs: 1000, isBackoff: true }, { verdict: TIMED_OUT, error: 'slow' })
    await advance(1000)
    const again = await claimOne(store)
    const expected = {
      status: 'running',
      nextAttemptAt: undefined,
      attempts: 1,
      previousDelayMs: 1000,
      errorClass: 'retryable',
      errorCode: 'timeout',
      errorMessage: 'slow',
      changedAt: await store.now(),
    } as const
    assertFields(again, { ...expected, id: task.id, isUndecided: false })
    assertFields(await get(store, task.id), expected)
  },

  async 'the order is priority, then submittedAt, then id'(store) {
    const now = await store.now()
    await add(
      store,
      { id: 'e', submittedAt: now - 1 },
      { id: 'd', submittedAt: now - 2 },
      { id: 'f', priority: -1, submittedAt: now - 9 },
      { id: 'c', submittedAt: now - 2 },
      { id: 'b', priority: 1 },
      { id: 'a', priority: 10 },
    )
    assert.deepEqual(await claimIds(store), ['a', 'b', 'c', 'd', 'e', 'f'])
  },

  async 'new work and due retries stand in one order'(store, advance) {
    const task = await start(store, { id: 'retried' })
    await advance(1)
    await add(store, { id: 'newer' }, { id: 'older', submittedAt: task.submittedAt - 1 })
    await settle(store, task, { type: 'retry', delayMs: 10, isBackoff: true })
    await advance(10)
    await add(store, { id: 'newest' })
    assert.deepEqual(await claimIds(store), ['older', 'retried', 'newer', 'newest'])
  },

  async 'the order is by submittedAt, not by when a task became due'(store, advance) {
    const now = await store.now()
    await add(store, { id: 'a', runAt: now + 20 }, { id: 'b', runAt: now + 10 })
    await advance(30)
    await add(store, { id: '0' })
    assert.deepEqual(await claimIds(store), ['a', 'b', '0'])
  },

  async 'over all lanes without a key the order is exact, whatever their kind and category'(store) {
    const now = await store.now()
    const kinds = ['k', 'l', 'm']
    const tasks = Array.from({ length: 60 }, (_, index) => ({
      id: String(index).padStart(2, '0'),
      kind: kinds[index % 3],
      category: index % 2 ? 'c' : '',
      submittedAt: now - ((index * 7) % 60),
    }))
    await add(store, ...tasks)
    const expected = tasks.toSorted((a, b) => a.submittedAt - b.submittedAt).map(({ id }) => id)
    const claimed: string[] = []
    for (let turn = 0; turn < 6; turn++) claimed.push(...(await claimIds(store, { kinds, limit: 10 })))
    assert.deepEqual(claimed, expected)
  },

  async 'no more than the limit is claimed, and none with a limit of 0'(store) {
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    assert.deepEqual(await claimIds(store, { limit: 0 }), [])
    assert.deepEqual(await claimIds(store, { limit: 2 }), ['a', 'b'])
    assert.deepEqual(await claimIds(store, { limit: 2 }), ['c'])
  },

  async 'a task is claimed once, however many ask at once'(store) {
    const ids = await add(store, ...Array.from({ length: 30 }, () => ({})))
    const claims = await Promise.all(
      Array.from({ length: 20 }, (_, index) => claim(store, { worker: `w${index}`, limit: 3 })),
    )
    const claimed = claims.flatMap(({ tasks }) => tasks)
    assertSame(
      claimed.map(({ id }) => id),
      ids,
    )
    assert.equal(new Set(claimed.map(({ token }) => token)).size, 30)
  },

  async 'each claim gives a new token'(store) {
    const first = await start(store)
    await store.settle([{ id: first.id, token: first.token, outcome: { type: 'released' } }])
    const second = await claimOne(store)
    assert.equal(second.id, first.id)
    assert.notEqual(second.token, first.token)
  },

  async 'only allowed kinds are claimed, and none without kinds'(store) {
    await add(store, { id: 'a', kind: 'k' }, { id: 'b', kind: 'l' }, { id: 'c', kind: 'm' })
    assert.deepEqual(await claimIds(store, { kinds: [] }), [])
    assert.deepEqual(await claimIds(store, { kinds: ['unknown'] }), [])
    assert.deepEqual(await claimIds(store, { kinds: ['m', 'l', 'm'] }), ['b', 'c'])
    assert.equal((await get(store, 'a')).status, 'waiting')
  },

  async 'only allowed categories are claimed, and none if the list is empty'(store) {
    await add(store, { id: 'a', category: 'x' }, { id: 'b', category: 'y' }, { id: 'c' }, { id: 'd', category: 'z' })
    assert.deepEqual(await claimIds(store, { categories: [] }), [])
    assert.deepEqual(await claimIds(store, { categories: ['y', 'x'] }), ['a', 'b'])
    assert.deepEqual(await claimIds(store, { categories: [''] }), ['c'])
    assert.deepEqual(await claimIds(store), ['d'])
  },

  async 'a due retry that is not allowed stays, and is there for who is'(store, advance) {
    const task = await start(store, { kind: 'l' })
    await settle(store, task, { type: 'retry', delayMs: 10, isBackoff: true })
    await advance(10)
    assert.deepEqual(await claimIds(store), [])
    assert.deepEqual(await claimIds(store, { kinds: ['l'] }), [task.id])
  },

  async 'a claim tells the store’s time, and when there may be more'(store, advance) {
    const now = await store.now()
    assertFields(await claim(store), { tasks: [], now, nextAt: undefined, isAloneWaiting: false })
    await add(store, { runAt: now + 5000 }, { runAt: now + 3000 }, { runAt: now + 4000 })
    assert.equal((await claim(store)).nextAt, now + 3000)
    await advance(3000)
    const later = await claim(store)
    assert.equal(later.tasks.length, 1)
    assertFields(later, { now: now + 3000, nextAt: now + 4000 })
  },

  async 'the next time is that of a retry too'(store) {
    const task = await start(store)
    await settle(store, task, { type: 'retry', delayMs: 700, isBackoff: true })
    assert.equal((await claim(store)).nextAt, (await store.now()) + 700)
  },

  async 'a task that has ended is not claimed again'(store, advance) {
    const ids = await add(store, {}, {}, {}, {})
    const { tasks } = await claim(store)
    const outcomes = [
      { type: 'succeeded' },
      { type: 'skipped', reason: 'r' },
      { type: 'dead', reason: 'final_error' },
      { type: 'cancelled' },
    ] as const
    for (const [index, outcome] of outcomes.entries()) {
      const task = tasks[index]
      if (task) assert.equal(await settle(store, task, outcome), 'settled')
    }
    await advance(1e9)
    const last = await claim(store, { isIdle: true })
    assertFields(last, { tasks: [], nextAt: undefined, isAloneWaiting: false })
    assert.equal((await store.list({}, { limit: 10 })).items.length, ids.length)
  },

  async 'what is cancelled while it waits for its time does not hide what is due after it'(store, advance) {
    const now = await store.now()
    const ids = await add(store, ...Array.from({ length: 8 }, (_, index) => ({ runAt: now + 10 * (index + 1) })))
    await store.cancel(ids.filter((_, index) => index % 3 === 0))
    await add(store, { id: 'more', runAt: now + 5, submittedAt: now + 1 })
    await advance(60)
    const expected = ids.slice(0, 6).filter((_, index) => index % 3 !== 0)
    assert.deepEqual(await claimIds(store), [...expected, 'more'])
    assert.equal((await claim(store)).nextAt, now + 80)
  },

  async 'two hundred due tasks are all claimed, in order'(store, advance) {
    const now = await store.now()
    const ids = await add(store, ...Array.from({ length: 200 }, (_, index) => ({ runAt: now + 1 + (index % 7) })))
    await advance(10)
    const claimed: string[] = []
    for (let got = 50; got === 50; ) {
      const batch = await claimIds(store, { limit: 50 })
      claimed.push(...batch)
      got = batch.length
    }
    assert.deepEqual(claimed, ids)
  },

  async 'a claim for one kind leaves work of other kinds where it is'(store) {
    const other = await addOne(store, { kind: 'l', key: 't' })
    const mine = await addOne(store, { key: 't' })
    assert.deepEqual(await claimIds(store), [mine])
    assert.deepEqual(await claimIds(store, { kinds: ['l'] }), [other])
  },
}
