import assert from 'node:assert/strict'
import type { ClaimedTask, StoreContract } from '../../src/store/internal.js'
import {
  add,
  claim,
  claimOne,
  entry,
  kill,
  LEASE_MS,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
  TIMED_OUT,
} from './harness.js'
import { createRedrive, move, take } from './operation-harness.js'

const RETRY = { type: 'retry', delayMs: 0, isBackoff: true } as const

function record(store: StoreContract, { id, token }: Pick<ClaimedTask, 'id' | 'token'>, name: string, result?: string) {
  return store.recordStep({ id, token, name, isDone: true, result, state: '{}' })
}

async function names(store: StoreContract, id: string): Promise<string[]> {
  return (await store.steps(id)).map(({ name }) => name)
}

/** The steps whose results are on record. */
async function done(store: StoreContract, id: string): Promise<string[]> {
  return (await store.steps(id)).flatMap(({ name, isDone }) => (isDone ? name : []))
}

/** A dead letter with three steps, the last of which has failed. */
async function dead(store: StoreContract, id: string): Promise<void> {
  const task = await start(store, { id })
  await record(store, task, 'create', '{"user":7}')
  await record(store, task, 'charge', '"ch_1"')
  await store.recordStep({ id, token: task.token, name: 'mail', isDone: false, result: undefined, state: '{"n":3}' })
  await kill(store, task)
}

/** Steps of tasks are recorded under the fence, and stay with their task. */
export const STEPS: StoreBehaviours = {
  async 'a step is recorded with its result and its state, in the order of the first records'(store) {
    const task = await start(store)
    assert.equal(task.hasSteps, false)
    assert.deepEqual(await store.steps(task.id), [])
    const { id, token } = task
    const failing = { name: 'b\u{1F680}\'"\\', isDone: false, result: undefined, state: '{"text":"\\u0000 é 🚀"}' }
    const done = { name: 'a', isDone: true, result: '{"n":1.50,"s":"\\u0000\\ud83d"}', state: '{}' }
    const nothing = { name: 'c', isDone: true, result: undefined, state: '[]' }
    for (const step of [failing, done, nothing]) assert.equal(await store.recordStep({ id, token, ...step }), true)
    assert.deepEqual(await store.steps(id), [failing, done, nothing])
    const again = { ...failing, isDone: true, result: '2' }
    assert.equal(await store.recordStep({ id, token, ...again }), true)
    assert.deepEqual(await store.steps(id), [again, done, nothing])
    assert.deepEqual(await store.steps('absent'), [])
    const other = await start(store, { id: 'other' })
    await record(store, other, 'only')
    const only = { name: 'only', isDone: true, result: undefined, state: '{}' }
    assert.deepEqual(await store.stepsOf(['other', 'absent', id]), [[only], [], [again, done, nothing]])
  },

  async 'steps that are recorded at the same time all are'(store) {
    const [a, b] = [await start(store, { id: 'a' }), await start(store, { id: 'b' })]
    const both = ['1', '2', '3'].flatMap(name => [record(store, a, name), record(store, b, name)])
    const stale = record(store, { id: 'a', token: 'stale' }, '4')
    assert.deepEqual(await Promise.all([...both, stale]), [true, true, true, true, true, true, false])
    for (const id of ['a', 'b']) assert.deepEqual((await names(store, id)).sort(), ['1', '2', '3'])
  },

  async 'a step that is done never changes again'(store) {
    const task = await start(store)
    assert.equal(await record(store, task, 'charge', '"first"'), true)
    assert.equal(await record(store, task, 'charge', '"second"'), true)
    const [step] = await store.steps(task.id)
    assert.equal(step?.result, '"first"')
  },

  async 'a worker whose task was rescued, or has ended, records nothing'(store, advance) {
    const task = await start(store, {}, { worker: 'slow' })
    assert.equal(await record(store, task, 'a'), true)
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    assert.equal(await record(store, task, 'b'), false)
    const next = await claimOne(store, { worker: 'w2', isIdle: true })
    assert.equal(await record(store, task, 'b'), false)
    assert.equal(await record(store, next, 'c'), true)
    await settleUncounted(store, next, RETRY)
    assert.equal(await record(store, next, 'd'), false)
    assert.deepEqual(await names(store, task.id), ['a', 'c'])
    for (const token of ['none', '1.1.x', '0.0.0.0.0'])
      assert.equal(await record(store, { id: task.id, token }, 'e'), false)
  },

  async 'a claim says whether steps are on record, however the last attempt ended'(store) {
    const first = await start(store)
    await record(store, first, 'a')
    await settleUncounted(store, first, { type: 'released' })
    const second = await claimOne(store)
    assert.deepEqual([second.hasSteps, second.attempts], [true, 0])
    await settle(store, second, RETRY, { verdict: TIMED_OUT, error: 'Error: x' })
    const third = await claimOne(store)
    assert.deepEqual([third.hasSteps, third.attempts], [true, 1])
    await kill(store, third)
    await store.redrive([first.id], { who: 'ann' })
    assert.equal((await claimOne(store)).hasSteps, true)
    await add(store, { id: 'other' })
    assert.equal((await claimOne(store)).hasSteps, false)
  },

  async 'steps stay after a success, a redrive and an edit, and go with their task'(store, advance) {
    await dead(store, 'a')
    await store.edit('a', '{"edited":true}', { who: 'ann' })
    await store.redrive(['a'], { who: 'ann' })
    const task = await claimOne(store)
    assert.deepEqual(await names(store, 'a'), ['create', 'charge', 'mail'])
    await settle(store, task, { type: 'succeeded' })
    assert.deepEqual(await names(store, 'a'), ['create', 'charge', 'mail'])
    await dead(store, 'b')
    await advance(1000)
    assert.equal(await store.prune({ endedMs: 1000, deadMs: 1000 }, 100), 2)
    for (const id of ['a', 'b']) {
      assert.deepEqual(await names(store, id), [])
      // The id is free again, and the new task has none of the old one's steps.
      assert.equal((await start(store, { id })).hasSteps, false)
      assert.deepEqual(await names(store, id), [])
    }
  },

  async 'a redrive forgets a step, and those after it if it is to go on from there'(store) {
    for (const id of ['a', 'b', 'c']) await dead(store, id)
    const from = await createRedrive(store, { set: { ids: ['a'] }, settings: { fromStep: 'charge' } })
    await move(store, from, await take(store, from.id), ['a'])
    assert.deepEqual(await done(store, 'a'), ['create'])
    const one = await createRedrive(store, { set: { ids: ['b'] }, settings: { forgetStep: 'charge' } })
    await move(store, one, await take(store, one.id), ['b'])
    assert.deepEqual(await done(store, 'b'), ['create'])
    // The attempts of those that are forgotten stay on record.
    assert.deepEqual(await names(store, 'a'), ['create', 'charge', 'mail'])
    const none = await createRedrive(store, { set: { ids: ['c'] }, settings: { fromStep: 'absent' } })
    await move(store, none, await take(store, none.id), ['c'])
    assert.deepEqual(await done(store, 'c'), ['create', 'charge'])
    const [record = ''] = (await store.audit.page({ limit: 1 })).items
    assert.equal(JSON.parse(record).settings.fromStep, 'charge')
  },

  async 'a redrive from a step leaves the steps of tasks alone that it does not move'(store) {
    await dead(store, 'a')
    const redrive = await createRedrive(store, {
      set: { ids: ['a'] },
      settings: { fromStep: 'create', patch: { n: 1 } },
    })
    await store.redrive(['a'], { who: 'bob' })
    await move(store, redrive, await take(store, redrive.id), ['a'])
    assert.deepEqual(await names(store, 'a'), ['create', 'charge', 'mail'])
  },

  async 'the notes of an attempt stay with its row of the ledger'(store) {
    const notes = {
      step: 'charge',
      used: { tokens: 1250.5, requests: 1 },
      unusedSteps: ['old'],
      progress: { fraction: 0.4, text: 'page 3 of 8 🚀' },
      log: [{ at: 1, text: 'one\ntwo "\\' }],
    }
    const task = await start(store, { id: 'a' })
    await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT, error: 'x', notes })
    const again = await claimOne(store)
    await settle(store, again, { type: 'succeeded' }, { notes: { unusedSteps: ['old'], used: { tokens: 7 } } })
    const rows = await store.ledger('a')
    assert.deepEqual(
      rows.map(row => row.notes),
      [notes, { unusedSteps: ['old'], used: { tokens: 7 } }],
    )
  },

  async 'a worker that died leaves the notes of its last heartbeat in the row of the loss'(store, advance) {
    for (const id of ['a', 'b', 'c']) await add(store, { id })
    const { tasks, now } = await claim(store, { worker: 'killed' })
    assert.equal(tasks.length, 3)
    const notes = { progress: { fraction: 0.5 }, log: [{ at: now, text: 'page 4' }] }
    const live = { a: { since: now, notes }, b: { since: now - 1, notes } }
    await advance(1)
    await store.heartbeat({ worker: 'killed', leaseMs: LEASE_MS, notes: live })
    const [worker] = await store.workers()
    assert.deepEqual(worker?.notes, live)
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    const rows = (await store.ledgers(['a', 'b', 'c'])).map(ledger => ledger.at(-1))
    assert.deepEqual(
      rows.map(row => [row?.outcome, row?.notes]),
      [
        ['lost', notes],
        // Of an attempt before: that is none of this one's.
        ['lost', undefined],
        ['lost', undefined],
      ],
    )
  },

  async 'an attempt is known by when its task began to run, in the report of its worker and after it'(store, advance) {
    await add(store, { id: 'a' }, { id: '__proto__' })
    await advance(5)
    const { tasks, now } = await claim(store, { worker: 'w' })
    assert.deepEqual([...new Set(tasks.map(({ changedAt }) => changedAt))], [now])
    const notes = { progress: { fraction: 1, text: '\u{1F680} é' } }
    const live = Object.fromEntries(tasks.map(({ id, changedAt }) => [id, { since: changedAt, notes }]))
    await advance(5)
    await store.heartbeat({ worker: 'w', leaseMs: LEASE_MS, notes: live })
    for (const { id } of tasks) {
      const { changedAt = 0 } = (await store.get(id)) ?? {}
      const [worker] = await store.workers()
      const [, told] = Object.entries(worker?.notes ?? {}).find(([of]) => of === id) ?? []
      assert.deepEqual(told, { since: changedAt, notes })
    }
    await store.heartbeat({ worker: 'w', leaseMs: LEASE_MS })
    assert.equal((await store.workers())[0]?.notes, undefined)
  },

  async 'an item that goes on in its worker begins anew, and the row of its stage keeps the notes'(store, advance) {
    const item = await start(store, { kind: 'pipeline/p', category: 'one' })
    const notes = { unusedSteps: ['one/old'] }
    await advance(5)
    const outcome = { type: 'advanced', to: 'two', value: '1', keep: true } as const
    const { id, token } = item
    const [answer] = await store.settle([{ id, token, outcome, attempt: entry(item, { notes }) }])
    assert.ok(answer?.result === 'kept')
    assert.deepEqual((await store.ledger(item.id))[0]?.notes, notes)
    const { changedAt } = (await store.get(item.id)) ?? {}
    assert.equal(answer.now, changedAt)
    const told = { progress: { fraction: 0.5 } }
    const beat = { worker: 'w1', leaseMs: LEASE_MS, notes: { [item.id]: { since: answer.now, notes: told } } }
    await store.heartbeat(beat)
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    assert.deepEqual((await store.ledger(item.id)).at(-1)?.notes, told)
  },
}
