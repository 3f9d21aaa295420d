import assert from 'node:assert/strict'
import type { JsonRecord, StoreContract } from '../../src/store/internal.js'
import { add, addOne, kill, type StoreBehaviours, settleUncounted, start, turns } from './harness.js'
import { createRedrive } from './operation-harness.js'

export const RECORDS: StoreBehaviours = {
  async 'records of features are paged as JSON texts, by type and id'(store) {
    const created = [await createRedrive(store), await createRedrive(store, { by: { who: 'bob' } })]
    const [first, ...none] = (await store.records({ limit: 1 })).items
    assert.deepEqual(none, [])
    const found: JsonRecord[] = []
    for (let after: string | undefined; ; ) {
      const page = await store.records({ limit: 1, after })
      found.push(...page.items)
      if (page.next === undefined) break
      after = page.next
    }
    assert.deepEqual(found[0], first)
    const operations = found.filter(({ type }) => type === 'operation')
    assert.deepEqual(operations.map(({ id }) => id).sort(), created.map(({ id }) => id).sort())
    for (const { state } of found) assert.doesNotThrow(() => JSON.parse(state))
  },

  async 'a policy is kept under its hash'(store) {
    assert.equal(await store.policies.get('hash'), undefined)
    await store.policies.keep('hash', '{"attempts":3}')
    await store.policies.keep('other', '{"attempts":4}')
    await store.policies.keep('hash', '{"attempts":3}')
    assert.equal(await store.policies.get('hash'), '{"attempts":3}')
    assert.equal(await store.policies.get('other'), '{"attempts":4}')
  },

  async 'audit records are kept in order, and paged oldest first'(store) {
    assert.deepEqual((await store.audit.page({ limit: 10 })).items, [])
    await store.audit.append(['1', '2'])
    await store.audit.append([])
    await store.audit.append(['3', '{"é":"😀"}', '3'])
    assert.deepEqual(await auditPages(store, 10), [['1', '2', '3', '{"é":"😀"}', '3']])
    assert.deepEqual(await auditPages(store, 2), [['1', '2'], ['3', '{"é":"😀"}'], ['3']])
    assert.equal((await auditPages(store, 5)).length, 1)
  },

  async 'audit pages go on where they were while records are added'(store) {
    await store.audit.append(['1', '2', '3'])
    const { items, next } = await store.audit.page({ limit: 2 })
    assert.deepEqual(items, ['1', '2'])
    assert.ok(next !== undefined)
    await store.audit.append(['4'])
    assert.deepEqual((await store.audit.page({ limit: 10, after: next })).items, ['3', '4'])
  },

  async 'the last audit records are read oldest first, and those that follow from their end on'(store) {
    const empty = await store.audit.tail(2)
    assert.deepEqual(empty.items, [])
    await store.audit.append(['1', '2', '3'])
    assert.deepEqual((await store.audit.page({ limit: 10, after: empty.end })).items, ['1', '2', '3'])
    const { items, end } = await store.audit.tail(2)
    assert.deepEqual(items, ['2', '3'])
    assert.deepEqual((await store.audit.tail(10)).items, ['1', '2', '3'])
    const nothing = await store.audit.page({ limit: 10, after: end })
    assert.deepEqual(nothing.items, [])
    await store.audit.append(['4'])
    assert.deepEqual((await store.audit.page({ limit: 10, after: nothing.end })).items, ['4'])
  },

  async 'idempotency keys live in the store'(store, advance) {
    const request = { fingerprint: 'f'.repeat(64), leaseMs: 1000 }
    const claimed = await store.idempotency.claim('key', request)
    assert.equal(claimed.state, 'fresh')
    assert.equal((await store.idempotency.claim('key', request)).state, 'in_progress')
    await advance(1000)
    const taken = await store.idempotency.claim('key', request)
    assert.equal(taken.state, 'fresh')
    assert.equal(await store.idempotency.complete('key', claimed.token, '1'), false)
    assert.equal(await store.idempotency.complete('key', taken.token, '2'), true)
    const done = await store.idempotency.claim('key', request)
    assert.deepEqual(done, { state: 'done', fingerprint: request.fingerprint, result: '2' })
  },

  async 'the clock stands still until it is moved, and moves by as much'(store, advance) {
    const now = await store.now()
    assert.equal(await store.now(), now)
    await advance(1234)
    assert.equal(await store.now(), now + 1234)
  },

  async 'who watches is called when there may be something to claim'(store) {
    let calls = 0
    const stop = store.watch(() => calls++)
    const called = async (what: string, action: () => Promise<unknown>) => {
      calls = 0
      await action()
      await turns(() => calls > 0)
      assert.ok(calls > 0, `${what} should call`)
    }
    await called('enqueue', () => addOne(store))
    await called('enqueue for later', () => add(store, { kind: 'l', runAt: Date.now() * 2 }))
    await store.cancel(['unknown'])
    const task = await start(store, { kind: 'm' })
    await called('a release', () => settleUncounted(store, task, { type: 'released' }))
    const dead = await start(store, { kind: 'n' })
    await kill(store, dead)
    await called('redrive', () => store.redrive([dead.id], { who: 'ann' }))
    await store.pause({ kind: 'k' }, { isPaused: true })
    await called('resume', () => store.pause({ kind: 'k' }, { isPaused: false }))
    stop()
  },

  async 'who is called finds the change: it is committed by then'(store) {
    const dead = await start(store)
    await kill(store, dead)
    const found: Promise<string | undefined>[] = []
    const stop = store.watch(() => found.push(store.get(dead.id).then(task => task?.status)))
    const foundAfter = async (act: () => Promise<unknown>) => {
      found.length = 0
      await act()
      await turns(() => found.length > 0)
      return await found.at(-1)
    }
    assert.equal(await foundAfter(() => store.redrive([dead.id], { who: 'ann' })), 'waiting')
    assert.equal(await foundAfter(() => store.cancel([dead.id])), 'cancelled')
    stop()
  },

  async 'who has stopped watching is not called, and the others are'(store) {
    const calls: [number, number] = [0, 0]
    const stops = [store.watch(() => calls[0]++), store.watch(() => calls[1]++)]
    stops[0]?.()
    stops[0]?.()
    await addOne(store)
    await turns(() => calls[1] !== 0)
    assert.equal(calls[0], 0)
    assert.ok(calls[1])
    stops[1]?.()
  },
}

async function auditPages(store: StoreContract, limit: number): Promise<string[][]> {
  const found: string[][] = []
  for (let after: string | undefined; ; ) {
    const page = await store.audit.page(after === undefined ? { limit } : { limit, after })
    found.push([...page.items])
    if (page.next === undefined) return found
    after = page.next
  }
}
