import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { NewTask } from '../../src/store/index.js'
import type { StoreContract } from '../../src/store/internal.js'
import { add, addOne, claimIds, claimOne, get, LEASE_MS, type StoreBehaviours, settle, start } from './harness.js'

/** Values that no store takes for an id, a kind, a category, a key or a name. */
const BAD_NAMES: readonly unknown[] = [5, null, {}, 'a\0b', '\ud800', 'x\udc00', 'x'.repeat(513), 'é'.repeat(257)]

const ROOMS = [{ kinds: ['k'] }]

const ADVANCED = { type: 'advanced', to: 'x', value: '1', keep: true } as const

const SETTLEMENT = {
  id: 'a',
  token: 't',
  outcome: { type: 'succeeded' },
  attempt: { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w1' },
} as const

/** Calls of each verb with a value in one of its places, by the option that the error must name. */
const CALLS: readonly [option: string, call: (store: StoreContract, bad: never) => Promise<unknown>][] = [
  ['id', (store, id) => store.enqueue([{ id, kind: 'k', payload: '1' }])],
  ['kind', (store, kind) => store.enqueue([{ kind, payload: '1' }])],
  ['category', (store, category) => store.enqueue([{ kind: 'k', category, payload: '1' }])],
  ['key', (store, key) => store.enqueue([{ kind: 'k', key, payload: '1' }])],
  ['worker', (store, worker) => store.claim({ worker, leaseMs: LEASE_MS, rooms: ROOMS, limit: 1, isIdle: true })],
  ['kind', (store, kind) => claimIds(store, { kinds: ['k', kind] })],
  ['category', (store, category) => claimIds(store, { categories: [category] })],
  ['id', (store, id) => store.settle([{ id, token: 't', outcome: { type: 'released' } }])],
  ['token', (store, token) => store.settle([{ id: 'a', token, outcome: { type: 'released' } }])],
  ['to', (store, to) => store.settle([{ id: 'a', token: 't', outcome: { ...ADVANCED, to } }])],
  ['version', (store, version) => store.settle([{ ...SETTLEMENT, attempt: { ...SETTLEMENT.attempt, version } }])],
  ['call', (store, call) => store.settle([{ ...SETTLEMENT, attempt: { ...SETTLEMENT.attempt, call } }])],
  ['worker', (store, worker) => store.heartbeat({ worker, leaseMs: LEASE_MS })],
  ['worker', (store, worker) => store.leave(worker)],
  ['worker', (store, worker) => store.cancelled(worker)],
  ['id', (store, id) => store.get(id)],
  ['id', (store, id) => store.ledger(id)],
  ['kind', (store, kind) => store.list({ kind }, { limit: 1 })],
  ['category', (store, category) => store.list({ category }, { limit: 1 })],
  ['key', (store, key) => store.count({ key })],
  ['id', (store, id) => store.redrive(['a', id], { who: 'ann' })],
  ['who', (store, who) => store.redrive(['a'], { who })],
  ['id', (store, id) => store.cancel(['a', id])],
  ['who', (store, who) => store.cancel(['a'], { who })],
  ['key', (store, key) => store.lanes({ key })],
  ['kind', (store, kind) => store.pause({ kind }, { isPaused: true })],
  ['who', (store, who) => store.pause({ kind: 'k' }, { isPaused: true, who })],
  ['category', (store, category) => store.limit({ kind: 'k', category }, { concurrency: 1 })],
  ['who', (store, who) => store.limit({ kind: 'k' }, { concurrency: 1 }, { who })],
  ['id', (store, id) => store.once('key', () => 1, { fence: { id, token: 't' } })],
]

export const CHECKS: StoreBehaviours = {
  async 'a selection that was mistyped, or a redrive by nobody, is an OptionError'(store) {
    await addOne(store, { id: 'a' })
    const refused: readonly [string, Promise<unknown>][] = [
      ['statu', store.list({ statu: 'dead' } as never, { limit: 1 })],
      ['code', store.count({ code: 'E' } as never)],
      ['kinds', store.lanes({ kinds: 'k' } as never)],
      ['kind', store.pause({ kinds: 'k' } as never, { isPaused: true })],
      ['isPaused', store.pause({ kind: 'k' }, { paused: true } as never)],
      ['kind', store.limit({} as never, { concurrency: 1 })],
      ['who', store.redrive(['a'], undefined as never)],
      ['ids', store.cancel('a' as never)],
    ]
    for (const [option, call] of refused) await assertRefused(call, option, option)
    assert.deepEqual(await claimIds(store), ['a'])
  },

  async 'a name that is no text, too long or broken is an OptionError that names it, in every verb'(store) {
    const before = await addOne(store, { id: 'a' })
    for (const [option, call] of CALLS) {
      for (const bad of BAD_NAMES) await assertRefused(call(store, bad as never), option, `${call} with ${String(bad)}`)
    }
    assert.deepEqual((await store.count({})).waiting, 1)
    assert.deepEqual(await claimIds(store), [before])
  },

  async 'a name of 512 bytes is kept as it is, whatever its characters'(store) {
    for (const name of ['x'.repeat(512), 'é'.repeat(256), '😀'.repeat(128), '\u0001\n\u007f"', '']) {
      const own = name === '' ? 'none' : name
      const id = await addOne(store, { id: own, kind: `k${name}`.slice(-256), category: name, key: name })
      const task = await claimOne(store, { kinds: [`k${name}`.slice(-256)], categories: [name] })
      assert.deepEqual([id, task.id, task.category, task.key], [own, own, name, name])
      assert.equal(await settle(store, task, { type: 'succeeded' }), 'settled')
      assert.equal((await get(store, own)).status, 'succeeded')
    }
  },

  async 'a task cannot have an empty id'(store) {
    await assertRefused(store.enqueue([{ id: '', kind: 'k', payload: '1' }]), 'id')
    assert.equal(await store.get(''), undefined)
  },

  async 'a batch with one bad task adds none'(store) {
    const tasks = [{ id: 'a' }, { id: 'b\0' }].map(task => ({ kind: 'k', payload: '1', ...task }))
    await assertRefused(store.enqueue(tasks), 'id')
    assert.equal(await store.get('a'), undefined)
  },

  async 'a payload is text that every store can keep, and numbers are numbers'(store) {
    const bad: readonly [option: string, task: Partial<Record<keyof NewTask, unknown>>][] = [
      ['payload', { payload: undefined }],
      ['payload', { payload: 5 }],
      ['payload', { payload: 'a\0' }],
      ['payload', { payload: '"\ud800"' }],
      ['priority', { priority: Number.NaN }],
      ['priority', { priority: '1' }],
      ['submittedAt', { submittedAt: Infinity }],
      ['runAt', { runAt: Number.NaN }],
      ['runAt', { runAt: 1e300 }],
    ]
    for (const [option, task] of bad) {
      const tasks = [{ kind: 'k', payload: '1', ...task }] as readonly NewTask[]
      await assertRefused(store.enqueue(tasks), option, JSON.stringify(task))
    }
    assert.equal((await store.count({})).waiting, 0)
  },

  async 'a value is text that every store can keep, and a cost has a number for each bucket'(store) {
    const task = await start(store)
    const advance = (more: object, used?: never) =>
      store.settle([{ id: task.id, token: task.token, outcome: { ...ADVANCED, ...more }, used }])
    for (const value of [undefined, 5, 'a\0', '"\ud800"'])
      await assertRefused(advance({ value }), 'value', String(value))
    for (const cost of [
      null,
      5,
      { tokens: -1 },
      { tokens: Number.NaN },
      { tokens: Infinity },
      { tokens: '1' },
      { 'a\0': 1 },
    ]) {
      const about = JSON.stringify(cost)
      await assertRefused(advance({ cost }), 'cost', about)
      await assertRefused(advance({}, cost as never), 'used', about)
      await assertRefused(store.enqueue([{ kind: 'k', payload: '1', cost: cost as never }]), 'cost', about)
    }
    assert.equal((await get(store, task.id)).status, 'running')
    assert.deepEqual(await store.enqueue([{ id: 'b', kind: 'k', payload: '1', cost: { tokens: 0.5 } }]), [
      { id: 'b', isNew: true, outcome: 'created' },
    ])
  },

  async 'a limit is a whole number, 0 or more, in every verb'(store) {
    await add(store, {}, {})
    await store.audit.append(['1'])
    for (const limit of [-1, 0.5, Number.NaN, Infinity, '1', null] as never[]) {
      const about = String(limit)
      await assertRefused(claimIds(store, { limit }), 'limit', about)
      await assertRefused(claimIds(store, { rooms: [{ kinds: ['k'], limit }] }), 'limit', about)
      await assertRefused(store.list({}, { limit }), 'limit', about)
      await assertRefused(store.audit.page({ limit }), 'limit', about)
      await assertRefused(store.prune({}, limit), 'limit', about)
    }
    assert.equal((await store.count({})).waiting, 2)
    assert.deepEqual((await store.list({}, { limit: 0 })).items, [])
    assert.deepEqual((await store.audit.page({ limit: 0 })).items, [])
  },

  async 'a status that does not exist, a code that is no text and a lease that is no number are OptionErrors'(store) {
    await assertRefused(store.list({ status: 'failed' as never }, { limit: 1 }), 'status')
    await assertRefused(store.count({ status: 'toString' as never }), 'status')
    await assertRefused(store.count({ errorCode: 5 as never }), 'errorCode')
    await assertRefused(store.heartbeat({ worker: 'w1', leaseMs: Number.NaN }), 'leaseMs')
    await assertRefused(store.heartbeat({ worker: 'w1', leaseMs: 1e300 }), 'leaseMs')
    await store.heartbeat({ worker: 'w1', leaseMs: 1000.4 })
    await assertRefused(store.prune({ endedMs: Number.NaN }, 1), 'endedMs')
    const task = await start(store)
    for (const delayMs of [Infinity, 1e300, Number.NaN])
      await assertRefused(settle(store, task, { type: 'retry', delayMs, isBackoff: true }), 'delayMs', String(delayMs))
    await assertRefused(store.cancel(['a'], { who: 'ann', why: 5 as never }), 'why')
    await assertRefused(store.cancel(['a'], { who: 'ann', why: 'x'.repeat(1001) }), 'why')
  },

  async 'the code of a failure may be any text, and is found by it'(store) {
    for (const code of ['a\0b', '\ud800', 'é 😀', '']) {
      const task = await start(store)
      const verdict = { class: 'final', code } as const
      await settle(store, task, { type: 'dead', reason: 'final_error' }, { verdict })
      assert.equal((await store.count({ errorCode: code })).dead, 1, JSON.stringify(code))
    }
  },
}

async function assertRefused(call: Promise<unknown>, option: string, about?: string): Promise<void> {
  await assert.rejects(call, (error: unknown) => {
    assert.ok(error instanceof OptionError, `${about}: ${error}`)
    assert.equal(error.option, option, about)
    return true
  })
}
