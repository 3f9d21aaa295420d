import assert from 'node:assert/strict'
import {
  add,
  addOne,
  assertFields,
  claim,
  claimIds,
  claimOne,
  laneOf,
  type StoreBehaviours,
  settle,
  start,
} from './harness.js'

const LANE = { kind: 'k', category: '', key: 't' }

export const LIMITS: StoreBehaviours = {
  async 'a paused kind gives no work until it is resumed, its later lanes included'(store) {
    await add(store, { id: 'a' }, { id: 'b', category: 'c', key: 't' }, { id: 'other', kind: 'l' })
    await store.pause({ kind: 'k' }, true)
    await add(store, { id: 'c', key: 'later' })
    assert.deepEqual(await claimIds(store, { kinds: ['k', 'l'] }), ['other'])
    assert.equal((await laneOf(store, { key: 'later' })).isPaused, true)
    await store.pause({ kind: 'k' }, false)
    assert.deepEqual((await claimIds(store)).sort(), ['a', 'b', 'c'])
    assert.equal((await laneOf(store, { key: 'later' })).isPaused, false)
  },

  async 'a category is paused alone, and so is a key'(store) {
    await add(
      store,
      { id: 'a', category: 'x' },
      { id: 'b', category: 'x', key: 't' },
      { id: 'c', key: 't' },
      { id: 'd' },
    )
    await store.pause({ kind: 'k', category: 'x' }, true)
    await store.pause({ kind: 'k', key: 't' }, true)
    await store.pause({ kind: 'l' }, true)
    assert.deepEqual(await claimIds(store), ['d'])
    await store.pause({ kind: 'k', category: 'x' }, false)
    assert.deepEqual((await claimIds(store)).sort(), ['a', 'b'])
    await store.pause({ kind: 'k', key: 't' }, false)
    assert.deepEqual(await claimIds(store), ['c'])
  },

  async 'no category and no key are told from any'(store) {
    await add(store, { id: 'a' }, { id: 'b', category: 'x' }, { id: 'c', category: 'x', key: 't' })
    await store.pause({ kind: 'k', category: '', key: '' }, true)
    assert.deepEqual((await claimIds(store)).sort(), ['b', 'c'])
  },

  async 'the last word on a lane holds'(store) {
    await add(store, { id: 'a', key: 't' }, { id: 'b', key: 'u' })
    await store.pause({ kind: 'k' }, true)
    await store.pause({ kind: 'k', key: 't' }, false)
    assert.deepEqual(await claimIds(store), ['a'])
    await add(store, { id: 'c', category: 'x', key: 't' })
    assert.deepEqual(await claimIds(store), ['c'], 'a lane that came later')
    await store.pause({ kind: 'k' }, false)
    assert.deepEqual(await claimIds(store), ['b'])
    await store.pause({ kind: 'k', key: 't' }, true)
    await store.pause({ kind: 'k' }, false)
    await add(store, { id: 'd', key: 't' })
    assert.deepEqual(await claimIds(store), ['d'])
  },

  async 'what runs when its lane is paused runs on, and its retry waits'(store) {
    const task = await start(store)
    await store.pause({ kind: 'k' }, true)
    assert.equal(await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }), 'settled')
    assert.deepEqual(await claimIds(store), [])
    await store.pause({ kind: 'k' }, false)
    assert.deepEqual(await claimIds(store), [task.id])
  },

  async 'pausing and resuming twice, or what is not there, does nothing more'(store) {
    const id = await addOne(store)
    await store.pause({ kind: 'k' }, false)
    await store.pause({ kind: 'unknown' }, true)
    await store.pause({ kind: 'k' }, true)
    await store.pause({ kind: 'k' }, true)
    await store.pause({ kind: 'k' }, false)
    assert.deepEqual(await claimIds(store), [id])
  },

  async 'no more of a lane run at once than its limit allows'(store) {
    await store.limit(LANE, { concurrency: 2 })
    await add(store, ...Array.from({ length: 5 }, () => ({ key: 't' })), { id: 'other', key: 'u' })
    const { tasks } = await claim(store)
    assert.equal(tasks.length, 3)
    assert.equal((await laneOf(store, LANE)).running, 2)
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    const limited = tasks.find(({ key }) => key === 't')
    if (limited) await settle(store, limited, { type: 'succeeded' })
    assert.equal((await claimOne(store, { worker: 'w2' })).key, 't')
    assertFields(await laneOf(store, LANE), { running: 2, limits: { concurrency: 2 } })
  },

  async 'a lane without a key can be limited, and the others go on in their order'(store) {
    await store.limit({ kind: 'k', category: 'x', key: '' }, { concurrency: 1 })
    await add(store, { id: 'a', category: 'x' }, { id: 'b', category: 'x' }, { id: 'c' }, { id: 'd', category: 'y' })
    assert.deepEqual(await claimIds(store), ['a', 'c', 'd'])
  },

  async 'no more of a lane start in a second than its limit allows'(store, advance) {
    await store.limit(LANE, { perSecond: 2 })
    await add(store, ...Array.from({ length: 5 }, () => ({ key: 't' })), { id: 'other' })
    const { tasks, now, nextAt } = await claim(store)
    assert.equal(tasks.length, 3)
    assert.ok(
      nextAt !== undefined && nextAt > now && nextAt <= now + 1000,
      `the next may start at now + ${nextAt} - ${now}`,
    )
    for (const task of tasks) await settle(store, task, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    assert.equal((await claimIds(store)).length, 2)
    assert.deepEqual(await claimIds(store), [])
    await advance(1000)
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'at the next time that a claim told, the next of a limited lane starts'(store, advance) {
    await store.limit(LANE, { perSecond: 3 })
    await add(store, ...Array.from({ length: 4 }, () => ({ key: 't' })))
    const { tasks, now, nextAt } = await claim(store)
    assert.equal(tasks.length, 3)
    await advance(Math.ceil((nextAt ?? now) - now))
    assert.equal((await claimIds(store)).length, 1)
  },

  async 'a limit takes the place of the one before, and can be taken away'(store) {
    await store.limit(LANE, { concurrency: 1, perSecond: 1 })
    await add(store, ...Array.from({ length: 5 }, () => ({ key: 't' })))
    assert.equal((await claimIds(store)).length, 1)
    await store.limit(LANE, { concurrency: 2 })
    assertFields(await laneOf(store, LANE), { limits: { concurrency: 2 } })
    assert.equal((await claimIds(store)).length, 1)
    await store.limit(LANE, {})
    assert.equal((await claimIds(store)).length, 3)
    assertFields(await laneOf(store, LANE), { limits: {} })
  },
}
