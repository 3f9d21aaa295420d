import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { By } from '../../src/store/index.js'
import {
  add,
  addOne,
  assertFields,
  claim,
  claimIds,
  claimOne,
  get,
  kill,
  LEASE_MS,
  loseTwice,
  type StoreBehaviours,
  settle,
  settleUncounted,
  start,
  TIMED_OUT,
} from './harness.js'

const CLEAN = {
  attempts: 0,
  deferrals: 0,
  previousDelayMs: undefined,
  reason: undefined,
  errorClass: undefined,
} as const

const ANN = { who: 'ann', why: 'a duplicate' }

export const OPERATORS: StoreBehaviours = {
  async 'a redriven task waits with fresh attempts and time to live, and keeps its history'(store, advance) {
    const task = await start(store)
    const deferred = { type: 'deferred', delayMs: 0 } as const
    await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT, error: 'slow' })
    await settle(store, await claimOne(store), deferred)
    await kill(store, await claimOne(store))
    await advance(1000)
    const now = await store.now()
    assert.deepEqual(await store.redrive([task.id], { who: 'ann', why: 'the bug is fixed' }), [task.id])
    assertFields(await get(store, task.id), {
      ...CLEAN,
      errorCode: undefined,
      errorMessage: undefined,
      status: 'waiting',
      submittedAt: now - 1000,
      startedAt: now,
      nextAttemptAt: now,
      changedAt: now,
    })
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(({ outcome }) => outcome),
      ['retry', 'deferred', 'dead', 'redriven'],
    )
    assertFields(rows[3], {
      sequence: 4,
      attempt: 0,
      worker: 'ann',
      reason: 'the bug is fixed',
      startedAt: now,
      endedAt: now,
      delayMs: undefined,
    })
    await settle(store, await claimOne(store), { type: 'succeeded' })
    assertFields((await store.ledger(task.id))[4], { sequence: 5, attempt: 1, outcome: 'succeeded' })
  },

  async 'a redrive needs no why'(store) {
    const task = await start(store)
    await kill(store, task)
    await store.redrive([task.id], { who: 'ann' })
    assertFields((await store.ledger(task.id))[1], { outcome: 'redriven', worker: 'ann', reason: undefined })
  },

  async 'only dead tasks are redriven, each once, and those that moved are named in order'(store) {
    const tasks = [await start(store, { id: 'b' }), await start(store, { id: 'a' })]
    for (const task of tasks) await kill(store, task)
    await settle(store, await start(store, { id: 'done' }), { type: 'succeeded' })
    await start(store, { id: 'running' })
    await add(store, { id: 'waiting' })
    const ids = ['waiting', 'b', 'running', 'unknown', 'a', 'done', 'b']
    assert.deepEqual(await store.redrive(ids, { who: 'ann' }), ['b', 'a'])
    assert.deepEqual(await store.redrive(ids, { who: 'ann' }), [])
    assert.deepEqual(await store.redrive([], { who: 'ann' }), [])
    assertFields(await store.count({}), { waiting: 3, running: 1, succeeded: 1, dead: 0 })
    assert.equal((await store.ledger('b')).length, 2)
  },

  async 'what killed two workers still runs alone after a redrive'(store, advance) {
    const id = await addOne(store)
    await loseTwice(store, advance)
    await settleUncounted(store, await claimOne(store, { isIdle: true }), {
      type: 'dead',
      reason: 'attempts_exhausted',
    })
    await store.redrive([id], { who: 'ann' })
    assertFields(await get(store, id), { ...CLEAN, losses: 2 })
    assertFields(await claim(store, { isIdle: false }), { tasks: [], isAloneWaiting: true })
    assertFields(await claimOne(store, { isIdle: true }), { id, isUndecided: false })
  },

  async 'the ledger of a task that is cancelled while it waits has who and why'(store, advance) {
    const task = await start(store, { category: 'bulk' })
    await settle(store, task, { type: 'retry', delayMs: 1000, isBackoff: true }, { verdict: TIMED_OUT, error: 'slow' })
    await advance(10)
    const now = await store.now()
    assert.deepEqual(await store.cancel([task.id], ANN), [task.id])
    assert.deepEqual(await store.cancel([task.id], ANN), [])
    assertFields(await get(store, task.id), { status: 'cancelled', reason: undefined, attempts: 1, changedAt: now })
    const rows = await store.ledger(task.id)
    assert.equal(rows.length, 2)
    assertFields(rows[1], {
      sequence: 2,
      attempt: 0,
      category: 'bulk',
      outcome: 'cancelled',
      worker: ANN.who,
      reason: ANN.why,
      startedAt: now,
      endedAt: now,
    })
    const silent = await addOne(store)
    await store.cancel([silent])
    assert.deepEqual(await store.ledger(silent), [])
  },

  async 'the ledger of a task that is cancelled while it runs has who and why, once, and the row of its attempt'(
    store,
    advance,
  ) {
    const task = await start(store, { category: 'bulk' })
    await advance(10)
    const now = await store.now()
    assert.deepEqual(await store.cancel([task.id], ANN), [task.id])
    assert.deepEqual(await store.cancel([task.id], { who: 'bob' }), [])
    assertFields((await store.ledger(task.id))[0], {
      sequence: 1,
      attempt: 0,
      category: 'bulk',
      outcome: 'cancel_requested',
      worker: ANN.who,
      reason: ANN.why,
      startedAt: now,
      endedAt: now,
    })
    await settle(store, task, { type: 'cancelled' })
    const outcomes = (await store.ledger(task.id)).map(({ outcome, attempt }) => [outcome, attempt])
    assert.deepEqual(outcomes, [
      ['cancel_requested', 0],
      ['cancelled', 1],
    ])
    const silent = await start(store)
    assert.deepEqual(await store.cancel([silent.id]), [silent.id])
    assert.deepEqual(await store.ledger(silent.id), [])
  },

  async 'a task that was to be cancelled may succeed or die, and can be cancelled again after its redrive'(store) {
    const lucky = await start(store, { id: 'lucky' })
    const dying = await start(store, { id: 'dying' })
    await store.cancel(['lucky', 'dying'], ANN)
    await settle(store, lucky, { type: 'succeeded' })
    await kill(store, dying)
    await store.redrive(['dying'], ANN)
    await claimOne(store)
    assert.deepEqual(await store.cancel(['lucky', 'dying'], ANN), ['dying'])
    const outcomesOf = async (id: string) => (await store.ledger(id)).map(({ outcome }) => outcome)
    assert.deepEqual(await outcomesOf('lucky'), ['cancel_requested', 'succeeded'])
    assert.deepEqual(await outcomesOf('dying'), ['cancel_requested', 'dead', 'redriven', 'cancel_requested'])
  },

  async 'the decision on a lost attempt is in its row, though somebody has edited the task or asked to cancel it'(
    store,
    advance,
  ) {
    const task = await start(store)
    await advance(LEASE_MS + 1)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    await store.edit(task.id, '{"n":2}', ANN)
    const again = await claimOne(store, { worker: 'w2' })
    assert.equal(again.isUndecided, true)
    await store.cancel([task.id], ANN)
    await settleUncounted(store, again, { type: 'dead', reason: 'losses_exhausted' })
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(({ outcome, reason }) => [outcome, reason]),
      [
        ['lost', 'losses_exhausted'],
        ['edited', ANN.why],
        ['cancel_requested', ANN.why],
      ],
    )
  },

  async 'a discarded dead letter is cancelled, with who and why, and keeps its error and its history'(store, advance) {
    const task = await start(store)
    await settle(store, task, { type: 'dead', reason: 'final_error' }, { verdict: TIMED_OUT, error: 'slow' })
    const dead = await get(store, task.id)
    await advance(1000)
    const now = await store.now()
    assert.deepEqual(await store.discard([task.id], ANN), [task.id])
    assert.deepEqual(await get(store, task.id), { ...dead, status: 'cancelled', reason: ANN.why, changedAt: now })
    const rows = await store.ledger(task.id)
    assert.equal(rows.length, 2)
    assertFields(rows[1], {
      sequence: 2,
      attempt: 0,
      outcome: 'discarded',
      worker: ANN.who,
      reason: ANN.why,
      startedAt: now,
      endedAt: now,
    })
    assert.deepEqual((await store.list({ status: 'cancelled' }, { limit: 2 })).items, [await get(store, task.id)])
    assert.deepEqual((await store.list({ status: 'dead' }, { limit: 2 })).items, [])
    assert.deepEqual(await store.redrive([task.id], ANN), [])
    assert.equal(await store.prune({ deadMs: 0 }, 10), 0)
    assert.equal(await store.prune({ endedMs: 0 }, 10), 1)
  },

  async 'only dead letters are discarded, each once, and those are named in order'(store) {
    for (const id of ['b', 'a', 'c']) await kill(store, await start(store, { id, key: id }))
    await settle(store, await start(store, { id: 'done' }), { type: 'succeeded' })
    await start(store, { id: 'running' })
    await add(store, { id: 'waiting' })
    const ids = ['waiting', 'b', 'running', 'unknown', 'a', 'done', 'b']
    assert.deepEqual(await store.discard(ids, ANN), ['b', 'a'])
    assert.deepEqual(await store.discard(ids, ANN), [])
    assert.deepEqual(await store.discard([], ANN), [])
    assertFields(await store.count({}), { waiting: 1, running: 1, succeeded: 1, dead: 1, cancelled: 2 })
  },

  async 'a discard needs a reason'(store) {
    const task = await start(store)
    await kill(store, task)
    await assert.rejects(store.discard([task.id], { who: 'ann', why: ' ' }), OptionError)
    await assert.rejects(store.discard([task.id], { who: 'ann' } as Required<By>), OptionError)
    assertFields(await get(store, task.id), { status: 'dead' })
  },

  async 'a waiting task that is cancelled has ended'(store, advance) {
    const now = await store.now()
    const [ready, scheduled] = await add(store, {}, { runAt: now + 1000 })
    assert.ok(ready !== undefined && scheduled !== undefined)
    await advance(1)
    assert.deepEqual(await store.cancel([scheduled, ready]), [scheduled, ready])
    const expected = { status: 'cancelled', nextAttemptAt: undefined, changedAt: now + 1, reason: undefined } as const
    for (const id of [ready, scheduled]) assertFields(await get(store, id), expected)
    await advance(1000)
    assertFields(await claim(store), { tasks: [], nextAt: undefined })
  },

  async 'a running task that is to be cancelled is told at each heartbeat of its worker, until it is settled'(store) {
    await add(store, { id: 'a' }, { id: 'b' })
    const [task, other] = (await claim(store)).tasks
    assert.ok(task && other)
    assert.deepEqual(await store.cancel(['a']), ['a'])
    assert.equal((await get(store, 'a')).status, 'running')
    assert.deepEqual((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).cancelled, [])
    assert.deepEqual([await store.cancelled('w2'), await store.cancelled('w1')], [[], [task.token]])
    assert.deepEqual((await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })).cancelled, [task.token])
    assert.deepEqual((await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })).cancelled, [task.token])
    assert.equal(await settle(store, task, { type: 'cancelled' }), 'settled')
    assert.deepEqual((await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })).cancelled, [])
    assert.deepEqual(await store.cancelled('w1'), [])
    assert.equal((await get(store, 'a')).status, 'cancelled')
  },

  async 'a task to be cancelled ends where it would wait again: the ledger says cancelled'(store) {
    const outcomes = [
      { type: 'retry', delayMs: 0, isBackoff: true },
      { type: 'deferred', delayMs: 0 },
      { type: 'later', delayMs: 0 },
    ] as const
    for (const outcome of outcomes) {
      const task = await start(store)
      await store.cancel([task.id])
      assert.equal(await settle(store, task, outcome), 'settled')
      assertFields(await get(store, task.id), { ...CLEAN, status: 'cancelled', nextAttemptAt: undefined })
      assertFields((await store.ledger(task.id))[0], { outcome: 'cancelled', delayMs: undefined })
    }
    const released = await start(store)
    await store.cancel([released.id])
    await settleUncounted(store, released, { type: 'released' })
    assertFields(await get(store, released.id), { status: 'cancelled' })
  },

  async 'a task to be cancelled that ends first has ended as it did'(store) {
    const succeeded = await start(store)
    await store.cancel([succeeded.id])
    await settle(store, succeeded, { type: 'succeeded', result: '1' })
    assertFields(await get(store, succeeded.id), { status: 'succeeded', result: '1' })
    const dead = await start(store)
    await store.cancel([dead.id])
    await kill(store, dead)
    assertFields(await get(store, dead.id), { status: 'dead' })
    await store.redrive([dead.id], { who: 'ann' })
    await settleUncounted(store, await claimOne(store), { type: 'released' })
    assertFields(await get(store, dead.id), { status: 'waiting' })
  },

  async 'a task to be cancelled is not run again when its worker dies or leaves'(store, advance) {
    const lost = await start(store)
    await store.cancel([lost.id])
    await advance(LEASE_MS)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 1)
    assertFields(await get(store, lost.id), { status: 'cancelled', attempts: 0, losses: 1, nextAttemptAt: undefined })
    assertFields((await store.ledger(lost.id))[0], { outcome: 'lost' })
    const left = await start(store)
    await store.cancel([left.id])
    await store.leave('w1')
    assertFields(await get(store, left.id), { status: 'cancelled', attempts: 0 })
    assert.deepEqual(await claimIds(store, { isIdle: true }), [])
  },

  async 'only what waits or runs is cancelled, each once, and those are named in order'(store) {
    await kill(store, await start(store, { id: 'dead' }))
    await settle(store, await start(store, { id: 'done' }), { type: 'succeeded' })
    await start(store, { id: 'running' })
    await add(store, { id: 'waiting' })
    const ids = ['done', 'waiting', 'unknown', 'running', 'dead', 'waiting']
    assert.deepEqual(await store.cancel(ids), ['waiting', 'running'])
    assert.deepEqual(await store.cancel([]), [])
    assertFields(await store.count({}), { dead: 1, succeeded: 1, cancelled: 1, running: 1, waiting: 0 })
  },
}
