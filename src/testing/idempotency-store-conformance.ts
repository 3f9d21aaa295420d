import assert from 'node:assert/strict'
import type { IdempotencyClaim, IdempotencyStore } from '../idempotency/index.js'
import type { ConformanceCase } from './conformance-case.js'

/** A store under test. Each case opens one; stores that share their data are fine, since the cases share no keys. */
export interface IdempotencyStoreUnderTest {
  /** The store to test. */
  readonly store: IdempotencyStore
  /** Lets at least this much time pass for the store: advances its clock, or sleeps. */
  pass(ms: number): Promise<void>
  /** Frees what `open` made. */
  close?(): Promise<void>
}

const SHORT = 50
const LONG = 60_000
const MINE = 'a'.repeat(64)
const OTHER = 'b'.repeat(64)

type Behaviour = (store: IdempotencyStore, pass: (ms: number) => Promise<void>, key: string) => Promise<void>

/**
 * The behaviour that every idempotency store must have, as cases for any test runner.
 *
 * ```ts
 * for (const { name, run } of idempotencyStoreConformance(open)) it(name, run)
 * ```
 */
export function idempotencyStoreConformance(
  open: () => Promise<IdempotencyStoreUnderTest> | IdempotencyStoreUnderTest,
): readonly ConformanceCase[] {
  return Object.entries(BEHAVIOURS).map(([name, behaviour]) => ({
    name,
    async run() {
      const { store, pass, close } = await open()
      try {
        await behaviour(store, pass, crypto.randomUUID())
      } finally {
        await close?.()
      }
    },
  }))
}

const BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  async 'a key that nobody has is fresh, each with a token of its own'(store, _pass, key) {
    assert.notEqual(await fresh(store, key), await fresh(store, `${key}-2`))
  },

  async 'a key that somebody has is in progress, with its fingerprint and the time its lease has left'(store, _, key) {
    await fresh(store, key)
    const found = await store.claim(key, { fingerprint: OTHER, leaseMs: LONG })
    assert.equal(found.state, 'in_progress')
    assert.equal(found.fingerprint, MINE)
    assert.ok(found.leaseLeftMs > LONG / 2 && found.leaseLeftMs <= LONG, `${found.leaseLeftMs} ms left of ${LONG}`)
  },

  async 'of 50 claims at once one is fresh'(store, _pass, key) {
    const claims = await Promise.all(Array.from({ length: 50 }, () => claim(store, key)))
    assert.equal(claims.filter(({ state }) => state === 'fresh').length, 1)
  },

  async 'a done key gives back its result and its fingerprint, whoever asks'(store, _pass, key) {
    assert.equal(await store.complete(key, await fresh(store, key), '{"value":1}'), true)
    const found = await store.claim(key, { fingerprint: OTHER, leaseMs: LONG })
    assert.deepEqual(found, { state: 'done', fingerprint: MINE, result: '{"value":1}' })
  },

  async 'a result comes back to the byte'(store, _pass, key) {
    const results = ['', '{}', '{ "b" : 1, "a":1 }', '"\\u0000 \\ud800"', `é 😀 ' " \\ % \n`, 'x'.repeat(100_000)]
    for (const [index, result] of results.entries()) {
      await store.complete(`${key}-${index}`, await fresh(store, `${key}-${index}`), result)
      await assertDone(store, `${key}-${index}`, result)
    }
  },

  async 'completing twice with one token is a success, and the first result stays'(store, _pass, key) {
    const token = await fresh(store, key)
    assert.equal(await store.complete(key, token, '1'), true)
    assert.equal(await store.complete(key, token, '2'), true)
    await assertDone(store, key, '1')
  },

  async 'a token that is not the owner’s changes nothing'(store, _pass, key) {
    const token = await fresh(store, key)
    const stranger = await fresh(store, `${key}-2`)
    assert.equal(await store.renew(key, stranger, LONG), false)
    assert.equal(await store.complete(key, stranger, '2'), false)
    await store.release(key, stranger)
    assert.equal((await claim(store, key)).state, 'in_progress')
    assert.equal(await store.complete(key, token, '1'), true)
    assert.equal(await store.complete(key, stranger, '2'), false)
    await assertDone(store, key, '1')
  },

  async 'a key that nobody has cannot be renewed or completed'(store, _pass, key) {
    const token = await fresh(store, `${key}-2`)
    assert.equal(await store.renew(key, token, LONG), false)
    assert.equal(await store.complete(key, token, '1'), false)
    await store.release(key, token)
    await fresh(store, key)
  },

  async 'an expired lease is taken over, and its old owner is refused'(store, pass, key) {
    const old = await fresh(store, key, SHORT)
    await pass(SHORT)
    const token = await fresh(store, key)
    assert.notEqual(token, old)
    assert.equal(await store.renew(key, old, LONG), false)
    assert.equal(await store.complete(key, old, 'old'), false)
    await store.release(key, old)
    assert.equal((await claim(store, key)).state, 'in_progress')
    assert.equal(await store.complete(key, token, 'new'), true)
    assert.equal(await store.complete(key, old, 'old'), false)
    await assertDone(store, key, 'new')
  },

  async 'of 50 claims at once on an expired lease one takes it over'(store, pass, key) {
    await fresh(store, key, SHORT)
    await pass(SHORT)
    const claims = await Promise.all(Array.from({ length: 50 }, () => claim(store, key)))
    assert.equal(claims.filter(({ state }) => state === 'fresh').length, 1)
  },

  async 'an expired lease is not handed to other parameters'(store, pass, key) {
    const token = await fresh(store, key, SHORT)
    await pass(SHORT)
    const found = await store.claim(key, { fingerprint: OTHER, leaseMs: LONG })
    assert.deepEqual(found, { state: 'in_progress', fingerprint: MINE, leaseLeftMs: 0 })
    assert.equal(await store.complete(key, token, '1'), true)
  },

  async 'an expired lease that nobody took over can still be completed'(store, pass, key) {
    const token = await fresh(store, key, SHORT)
    await pass(SHORT)
    assert.equal(await store.complete(key, token, '1'), true)
    await assertDone(store, key, '1')
  },

  async 'an expired lease that nobody took over can still be renewed'(store, pass, key) {
    const token = await fresh(store, key, SHORT)
    await pass(SHORT)
    assert.equal(await store.renew(key, token, LONG), true)
    assert.equal((await claim(store, key)).state, 'in_progress')
  },

  async 'a renewed lease runs from the renewal on'(store, pass, key) {
    const token = await fresh(store, key, SHORT)
    assert.equal(await store.renew(key, token, LONG), true)
    await pass(SHORT)
    assert.equal((await claim(store, key)).state, 'in_progress')
  },

  async 'a released key is fresh again, and its old token is stale'(store, _pass, key) {
    const old = await fresh(store, key)
    await store.release(key, old)
    const token = await fresh(store, key)
    assert.notEqual(token, old)
    assert.equal(await store.complete(key, old, 'old'), false)
    await store.release(key, old)
    assert.equal(await store.complete(key, token, 'new'), true)
  },

  async 'a released key may be claimed with other parameters'(store, _pass, key) {
    await store.release(key, await fresh(store, key))
    assert.equal((await store.claim(key, { fingerprint: OTHER, leaseMs: LONG })).state, 'fresh')
  },

  async 'a done key is neither renewed nor released by the token that completed it'(store, pass, key) {
    const token = await fresh(store, key, SHORT)
    await store.complete(key, token, '1')
    assert.equal(await store.renew(key, token, LONG), false)
    await store.release(key, token)
    await pass(SHORT)
    await assertDone(store, key, '1')
  },

  async 'a done key that is cleared is fresh again'(store, _pass, key) {
    const old = await fresh(store, key)
    await store.complete(key, old, '1')
    await store.clear(key)
    await fresh(store, key)
    assert.equal(await store.complete(key, old, 'old'), false)
  },

  async 'a key in progress that is cleared is fresh again, and its owner is refused'(store, _pass, key) {
    const old = await fresh(store, key)
    await store.clear(key)
    assert.equal(await store.renew(key, old, LONG), false)
    assert.equal(await store.complete(key, old, 'old'), false)
    await fresh(store, key)
  },

  async 'clearing a key that nobody has does nothing'(store, _pass, key) {
    await store.clear(key)
    await fresh(store, key)
  },

  async 'keys are compared exactly'(store, _pass, key) {
    const names = ['k', 'K', 'k ', ' k', 'ķ', 'k%', 'k_', 'k.*', 'k>', "k'", 'k/ä 😀', '\u00e9', 'e\u0301']
    for (const name of names) await fresh(store, `${key}${name}`)
  },

  async 'a key of 255 characters is kept whole'(store, _pass, key) {
    const long = key.padEnd(254, '漢')
    await fresh(store, `${long}1`)
    await fresh(store, `${long}2`)
  },
}

function claim(store: IdempotencyStore, key: string, leaseMs = LONG): Promise<IdempotencyClaim> {
  return store.claim(key, { fingerprint: MINE, leaseMs })
}

async function fresh(store: IdempotencyStore, key: string, leaseMs = LONG): Promise<string> {
  const found = await claim(store, key, leaseMs)
  assert.equal(found.state, 'fresh', `the key '${key}' should be fresh`)
  return found.token
}

async function assertDone(store: IdempotencyStore, key: string, result: string): Promise<void> {
  assert.deepEqual(await claim(store, key), { state: 'done', fingerprint: MINE, result })
}
