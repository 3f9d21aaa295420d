import assert from 'node:assert/strict'
import {
  IdempotencyInProgressError,
  IdempotencyKeyError,
  IdempotencyMismatchError,
} from '../../src/idempotency/index.js'
import { claimOne, type StoreBehaviours, settle, settleUncounted, start } from './harness.js'

const STALE_FENCE = { code: 'stale_fence' }

/** A function that counts its calls. */
function counting<T>(result: T) {
  const count = { calls: 0 }
  const work = () => {
    count.calls++
    return result
  }
  return { count, work }
}

export const ONCE: StoreBehaviours = {
  async 'a function runs one time per key, and each who asks gets its result'(store) {
    const { count, work } = counting({ number: 7 })
    assert.deepEqual(await store.once('a', work), { number: 7 })
    assert.deepEqual(await store.once('a', work), { number: 7 })
    assert.equal(count.calls, 1)
    await store.once('b', work)
    assert.equal(count.calls, 2)
  },

  async 'of 20 who come with one key at once, one runs'(store) {
    const { count, work } = counting('done')
    const results = await Promise.all(Array.from({ length: 20 }, () => store.once('k', work)))
    assert.deepEqual(results, Array(20).fill('done'))
    assert.equal(count.calls, 1)
  },

  async 'a result of undefined, null, false, 0 or nothing is a result'(store) {
    for (const [index, result] of [undefined, null, false, 0, '', [], { a: [1, { b: 'é' }] }].entries()) {
      const { count, work } = counting(result)
      assert.deepEqual(await store.once(`k${index}`, work), result)
      assert.deepEqual(await store.once(`k${index}`, work), result)
      assert.equal(count.calls, 1, `once(${JSON.stringify(result)})`)
    }
  },

  async 'a result comes back as JSON holds it'(store) {
    const work = () => ({ at: new Date(0), gone: undefined })
    await store.once('k', work)
    assert.deepEqual(await store.once<unknown>('k', work), { at: '1970-01-01T00:00:00.000Z' })
  },

  async 'a result that JSON cannot hold is refused, and its key stays free'(store) {
    await assert.rejects(
      store.once<unknown>('k', () => ({ rows: [], oid: 1n })),
      { name: 'OnceResultError' },
    )
    assert.equal(await store.once('k', () => 1), 1)
    assert.equal(await store.once('k', () => 2), 1)
  },

  async 'a function that throws leaves its key free'(store) {
    const failing = () => {
      throw new RangeError('no')
    }
    await assert.rejects(store.once('k', failing), RangeError)
    // Whichever of the two comes first, the other's failure does not reach it.
    const [, second] = await Promise.allSettled([store.once('k', failing), store.once('k', () => 2)])
    assert.deepEqual(second, { status: 'fulfilled', value: 2 })
  },

  async 'the same key with other parameters is refused, and nothing runs'(store) {
    const { count, work } = counting(1)
    await store.once('k', work, { params: { a: 1, b: 2 } })
    await assert.rejects(store.once('k', work, { params: { a: 2, b: 2 } }), IdempotencyMismatchError)
    assert.equal(await store.once('k', work, { params: { b: 2, a: 1 } }), 1)
    assert.equal(count.calls, 1)
  },

  async 'a key that cannot be is refused'(store) {
    for (const key of ['', 'k'.repeat(256), 'a\nb'])
      await assert.rejects(
        store.once(key, () => 1),
        IdempotencyKeyError,
      )
  },

  async 'its keys are those of the idempotency store'(store) {
    await store.once('done', () => 1)
    const done = await store.idempotency.claim('done', { fingerprint: 'f'.repeat(64), leaseMs: 1000 })
    assert.ok(done.state === 'done')

    const other = await store.idempotency.claim('mine', { fingerprint: done.fingerprint, leaseMs: 1000 })
    assert.ok(other.state === 'fresh')
    await assert.rejects(
      store.once('mine', () => 2),
      IdempotencyInProgressError,
    )
    await store.idempotency.complete('mine', other.token, '{"value":3}')
    assert.equal(await store.once('mine', () => 2), 3)
  },

  async 'who holds its task runs'(store) {
    const task = await start(store)
    assert.equal(await store.once('k', () => 1, { fence: { id: task.id, token: task.token } }), 1)
    await settle(store, task, { type: 'succeeded' })
  },

  async 'who no longer holds its task does not run, but gets a result that is there'(store) {
    const old = await start(store)
    await settleUncounted(store, old, { type: 'released' })
    const heir = await claimOne(store)
    const { count, work } = counting('heir')
    const fence = { id: old.id, token: old.token }
    await assert.rejects(store.once('k', work, { fence }), STALE_FENCE)
    assert.equal(count.calls, 0)
    assert.equal(await store.once('k', work, { fence: { id: heir.id, token: heir.token } }), 'heir')
    assert.equal(await store.once('k', work, { fence }), 'heir')

    await settle(store, heir, { type: 'succeeded' })
    const late = { fence: { id: heir.id, token: heir.token } }
    await assert.rejects(store.once('other', work, late), STALE_FENCE)
    await assert.rejects(store.once('other', work, { fence: { id: 'x', token: heir.token } }), STALE_FENCE)
    assert.equal(count.calls, 1)
    assert.equal(await store.once('other', work), 'heir', 'a refusal leaves the key free')
  },
}
