import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { By } from '../../src/store/index.js'
import type { StoreContract, UniqueKey } from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  callsDuring,
  claim,
  claimIds,
  claimOne,
  get,
  groupOf,
  kill,
  lose,
  type StoreBehaviours,
  settle,
  start,
  TIMED_OUT,
} from './harness.js'
import { createRedrive, move, take } from './operation-harness.js'
import { runOf } from './runs/harness.js'

const ANN = { who: 'ann', why: 'done by phone' } as const

/** Makes dead letters of tasks. */
function fail(store: StoreContract, ...ids: string[]): Promise<string[]> {
  return store.fail(
    ids.map(id => ({ id })),
    ANN,
  )
}

/** A task of each status, and an item of a run, which nobody but its run may end. */
async function oneOfEach(store: StoreContract): Promise<string[]> {
  await kill(store, await start(store, { id: 'dead' }))
  await settle(store, await start(store, { id: 'done' }), { type: 'succeeded', result: '"own"' })
  await settle(store, await start(store, { id: 'skipped' }), { type: 'skipped', reason: 'nothing to do' })
  await addOne(store, { id: 'cancelled' })
  await store.cancel(['cancelled'])
  await start(store, { id: 'running' })
  await addOne(store, { id: 'waiting' })
  await runOf(store, 1)
  const { items } = await store.list({ kind: 'pipeline:enrich' }, { limit: 1 })
  return ['waiting', 'running', 'dead', 'done', 'unknown', 'skipped', 'cancelled', items[0]?.id ?? '', 'waiting']
}

async function outcomes(store: StoreContract, id: string): Promise<string[]> {
  return (await store.ledger(id)).map(({ outcome }) => outcome)
}

async function lastRecord(store: StoreContract): Promise<unknown> {
  const { items } = await store.audit.tail(1)
  return items[0] && JSON.parse(items[0])
}

/** Tasks that people complete, fail and delete. */
export const BY_HAND: StoreBehaviours = {
  async 'a waiting task that is completed has succeeded, with the result, and on record'(store, advance) {
    await addOne(store, { id: 'a' })
    await advance(1000)
    const now = await store.now()
    assert.deepEqual(await store.complete(['a'], '{"paid":true}', ANN), ['a'])
    const done = { status: 'succeeded', result: '{"paid":true}', changedAt: now, nextAttemptAt: undefined } as const
    assertFields(await get(store, 'a'), { ...done, reason: undefined, attempts: 0 })
    const rows = await store.ledger('a')
    assert.equal(rows.length, 1)
    assertFields(rows[0], {
      sequence: 1,
      attempt: 0,
      outcome: 'completed',
      worker: 'ann',
      reason: ANN.why,
      endedAt: now,
    })
    assert.deepEqual(await lastRecord(store), {
      event_type: 'tasks_completed',
      count: 1,
      ids: ['a'],
      ...ANN,
      timestamp: new Date(now).toISOString(),
    })
    assert.deepEqual(await claimIds(store), [])
    assert.deepEqual((await store.list({ status: 'succeeded' }, { limit: 9 })).items, [await get(store, 'a')])
    assert.equal(await store.prune({ endedMs: 0 }, 9), 1)
  },

  async 'a dead letter that is completed loses its errors and its group, and keeps its history'(store) {
    const task = await start(store)
    await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT, error: 'slow' })
    await kill(store, await claimOne(store))
    assert.deepEqual(await store.complete([task.id], undefined, { who: 'ann' }), [task.id])
    const clean = {
      attempts: 0,
      errorClass: undefined,
      errorCode: undefined,
      errorMessage: undefined,
      group: undefined,
    }
    assertFields(await get(store, task.id), { status: 'succeeded', result: undefined, reason: undefined, ...clean })
    assert.deepEqual(await outcomes(store, task.id), ['retry', 'dead', 'completed'])
    assertFields((await store.groups.list({}, { limit: 1 })).items[0], { dead: 0, retrying: 0 })
    assert.deepEqual(await store.redrive([task.id], ANN), [])
  },

  async 'a task that is failed is a dead letter with the words of the person, and can be redriven'(store, advance) {
    const task = await start(store)
    const error = { verdict: TIMED_OUT, error: 'slow', group: groupOf('1-late') }
    await settle(store, task, { type: 'retry', delayMs: 5000, isBackoff: true }, error)
    await advance(1)
    assert.deepEqual(await fail(store, task.id), [task.id])
    assertFields(await get(store, task.id), {
      status: 'dead',
      reason: 'failed_by_hand',
      errorClass: 'final',
      errorCode: 'failed_by_hand',
      errorMessage: ANN.why,
      attempts: 1,
      group: '1-late',
      nextAttemptAt: undefined,
      changedAt: await store.now(),
    })
    assert.deepEqual(await outcomes(store, task.id), ['retry', 'failed'])
    assertFields((await store.groups.list({}, { limit: 1 })).items[0], { dead: 1, retrying: 0 })
    assertFields(
      (await lastRecord(store)) as object,
      { event_type: 'tasks_failed', count: 1, ids: [task.id] } as object,
    )
    assert.deepEqual(await store.redrive([task.id], ANN), [task.id])
    assertFields(await get(store, task.id), { status: 'waiting', attempts: 0, errorCode: undefined, reason: undefined })
    assert.deepEqual(await claimIds(store), [task.id])
  },

  async 'what follows a death follows one by hand, of the tasks that it made dead'(store) {
    await start(store, { id: 'running' })
    await addOne(store, { id: 'a' })
    const told = (id: string) => ({ id, ifDead: [{ id: `${id}/told`, kind: 'tell', payload: '{}' }] })
    assert.deepEqual(await store.fail([told('a'), told('running')], ANN), ['a'])
    assert.deepEqual(await claimIds(store, { kinds: ['tell'] }), ['a/told'])
  },

  async 'running tasks and items of runs are left alone, each other one is changed once, in order'(store) {
    const ids = await oneOfEach(store)
    const item = ids.find(id => id.startsWith('r:')) ?? ''
    assert.notEqual(item, '')
    assert.deepEqual(await fail(store, ...ids), ['waiting', 'cancelled'])
    assert.deepEqual(await fail(store, ...ids), [])
    assert.deepEqual(await store.complete(ids, '1', ANN), ['waiting', 'dead', 'cancelled'])
    assert.deepEqual(await store.complete(ids, '2', ANN), [])
    assert.deepEqual(await store.complete([], '2', ANN), [])
    assertFields(await get(store, 'done'), { result: '"own"' })
    assertFields(await get(store, 'waiting'), { result: '1' })
    assertFields(await store.count({ kind: 'k' }), { running: 1, succeeded: 4, skipped: 1, dead: 0, cancelled: 0 })
    assert.deepEqual(await store.delete(ids, ANN), ['waiting', 'dead', 'done', 'skipped', 'cancelled'])
    assertFields(await store.count({ kind: 'k' }), { running: 1, succeeded: 0, skipped: 0 })
    assertFields(await get(store, item), { status: 'waiting' })
    assert.deepEqual(await outcomes(store, item), [])
  },

  async 'a task that has ended by hand belongs to nobody: a late settlement changes nothing, and says so'(store) {
    const task = await start(store)
    await store.cancel([task.id], ANN)
    assert.deepEqual(await store.complete([task.id], '1', ANN), [], 'its handler has not ended')
    assert.equal(await settle(store, task, { type: 'cancelled' }), 'settled')
    assert.deepEqual(await store.complete([task.id], '1', ANN), [task.id])
    assert.equal(await settle(store, task, { type: 'succeeded', result: '2' }), 'stale')
    assertFields(await get(store, task.id), { status: 'succeeded', result: '1' })
    assert.deepEqual(await outcomes(store, task.id), ['cancel_requested', 'cancelled', 'completed'])
  },

  async 'a task whose worker died is completed before anybody has decided on the loss'(store, advance) {
    const id = await addOne(store)
    await lose(store, advance)
    assert.deepEqual(await fail(store, id), [id])
    assertFields(await get(store, id), { status: 'dead', losses: 1, reason: 'failed_by_hand' })
    assertFields((await store.ledger(id))[0], { outcome: 'lost', reason: undefined })
    assert.deepEqual(await store.redrive([id], ANN), [id])
    assert.equal((await claimOne(store)).isUndecided, false)
  },

  async 'the head of an ordered lane makes way'(store) {
    for (const act of ['complete', 'delete'] as const) {
      await store.limit({ kind: act }, { isOrdered: true })
      const task = await start(store, { kind: act, key: 't' })
      await settle(
        store,
        task,
        { type: 'retry', delayMs: 60_000, isBackoff: true },
        { verdict: TIMED_OUT, error: 'slow' },
      )
      const next = await addOne(store, { kind: act, key: 't' })
      assert.deepEqual(await claimIds(store, { kinds: [act] }), [])
      const end = () => (act === 'complete' ? store.complete([task.id], undefined, ANN) : store.delete([task.id], ANN))
      assert.ok((await callsDuring(store, end)) > 0)
      assert.deepEqual(await claimIds(store, { kinds: [act] }), [next])
    }
  },

  async 'a lane that stops at its dead letters goes on when one is completed or deleted, and stops at one that is failed'(
    store,
  ) {
    await store.limit({ kind: 'k' }, { isOrdered: true, onDead: 'block' })
    const [a = '', b = '', c = '', d = ''] = await add(store, { key: 't' }, { key: 't' }, { key: 't' }, { key: 't' })
    await fail(store, a)
    assert.deepEqual(await claimIds(store), [])
    await store.complete([a], undefined, ANN)
    const second = await claimOne(store)
    assert.equal(second.id, b)
    await kill(store, second)
    assert.deepEqual(await claimIds(store), [])
    assert.ok((await callsDuring(store, () => store.delete([b], ANN))) > 0)
    await settle(store, await claimOne(store), { type: 'succeeded' })
    assert.equal((await get(store, c)).status, 'succeeded')
    assert.deepEqual(await claimIds(store), [d])
  },

  async 'a unique key is free again, or that of the task which waited for it'(store) {
    const unique: UniqueKey = { key: 'a', while: 'unfinished', conflict: 'after' }
    const ask = () => addOne(store, { unique })
    for (const end of [
      (id: string) => store.complete([id], undefined, ANN),
      (id: string) => fail(store, id),
      (id: string) => store.delete([id], ANN),
    ]) {
      const first = await start(store, { unique })
      const next = await ask()
      await settle(store, first, { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT, error: 'slow' })
      assert.deepEqual(await end(first.id), [first.id])
      const claimed = await claimOne(store)
      assert.equal(claimed.id, next)
      await settle(store, claimed, { type: 'succeeded' })
    }
  },

  async 'a retry that waits under a budget ends like any other'(store) {
    await store.budgets.set({ kind: 'k' }, { retries: { share: 0.01, windowMs: 60_000, floor: 1 } })
    await add(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    const retry = { type: 'retry', delayMs: 0, isBackoff: true } as const
    for (const task of (await claim(store)).tasks) {
      await settle(store, task, retry, { verdict: TIMED_OUT, error: 'slow' })
      assertFields(await get(store, task.id), { isBudgeted: true })
    }
    assert.deepEqual(await store.complete(['a'], undefined, ANN), ['a'])
    assert.deepEqual(await fail(store, 'b'), ['b'])
    assert.deepEqual(await store.delete(['c'], ANN), ['c'])
    assertFields(await store.count({}), { waiting: 0, succeeded: 1, dead: 1, cancelled: 0 })
  },

  async 'the last member of a batch that is ended by hand ends it, and one that is failed later is noted'(store) {
    const tasks = [0, 1].map(n => ({ kind: 'k', payload: `${n}` }))
    await store.batches.fill('b', { position: 0, tasks, isEnd: true })
    const [one, two] = ['batch:b:000000000000', 'batch:b:000000000001'] as const
    await store.complete([one], undefined, ANN)
    assertFields(await store.batches.get('b'), { status: 'running' })
    await store.cancel([two])
    assertFields(await store.batches.get('b'), { status: 'partial_success', endings: 1 })
    await fail(store, two)
    const { counts } = (await store.batches.get('b')) ?? {}
    assertFields(counts, { succeeded: 1, dead: 1, cancelled: 0 })
    assert.equal(await store.prune({ endedMs: 0, deadMs: 60_000 }, 9), 0, 'it has a dead member')
    assert.deepEqual(await store.delete([one, two], ANN), [], 'its batch counts it')
    assert.equal(await store.prune({ endedMs: 0, deadMs: 0 }, 9), 2)
  },

  async 'a member that an operation has redriven counts as cancelled if a person ends it while it waits'(store) {
    await kill(store, await start(store, { id: 'a' }))
    const operation = await createRedrive(store)
    await move(store, operation, await take(store, operation.id), ['a'])
    await store.complete(['a'], undefined, ANN)
    const tally = (await store.operations.get(operation.id))?.tally
    assertFields(tally, { unanswered: 1, cancelled: 1, succeeded: 0, dead: 0 })
    assertFields(await get(store, 'a'), { operation: undefined })
    await store.operations.change(operation.id, 'stop', ANN)
    assert.deepEqual(await store.operations.undo(operation.id, { limit: 9 }, ANN), { undone: 0 })
  },

  async 'a deleted task is gone with its history and its steps, its id is free, and the audit log has it'(store) {
    const task = await start(store, { id: 'a' })
    const step = { id: 'a', token: task.token, name: 's', isDone: true, result: '1', state: '{}' }
    await store.recordStep(step)
    await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }, { verdict: TIMED_OUT, error: 'slow' })
    assert.deepEqual(await store.delete(['a', 'unknown'], ANN), ['a'])
    assert.deepEqual([await store.get('a'), await store.ledger('a'), await store.steps('a')], [undefined, [], []])
    const record = { event_type: 'tasks_deleted', count: 1, ids: ['a'] }
    assertFields((await lastRecord(store)) as typeof record, record)
    assert.deepEqual((await store.list({}, { limit: 9 })).items, [])

    const again = await start(store, { id: 'a' })
    assert.deepEqual([again.isFirst, again.hasSteps, again.attempts], [true, false, 0])
    assert.equal(await settle(store, task, { type: 'succeeded' }), 'stale')
    assert.equal(await settle(store, again, { type: 'succeeded' }), 'settled')
  },

  async 'a deleted dead letter leaves its group'(store) {
    for (const id of ['a', 'b']) await kill(store, await start(store, { id }))
    assert.deepEqual(await store.delete(['b', 'a'], ANN), ['b', 'a'])
    assertFields((await store.groups.list({}, { limit: 1 })).items[0], { dead: 0, retrying: 0, seen: 2 })
    assertFields(await store.count({}), { dead: 0, cancelled: 0 })
    assert.equal(await store.prune({ endedMs: 0, deadMs: 0 }, 9), 0)
  },

  async 'who waits for a task is called when a person has ended or deleted it'(store) {
    const acts = {
      complete: (id: string) => store.complete([id], undefined, ANN),
      fail: (id: string) => fail(store, id),
      delete: (id: string) => store.delete([id], ANN),
    }
    for (const act of Object.values(acts)) {
      const id = await addOne(store)
      const ended = new Promise<void>(resolve => {
        const unwatch = store.watchEnd(id, () => {
          unwatch()
          resolve()
        })
      })
      await act(id)
      await ended
    }
  },

  async 'a result is text that every store can keep, a failure has a reason, and somebody has asked'(store) {
    const id = await addOne(store)
    const nobody = {} as By
    await assert.rejects(store.complete([id], '\0', ANN), OptionError)
    await assert.rejects(store.complete([id], undefined, nobody), OptionError)
    await assert.rejects(store.fail([{ id }], { who: 'ann', why: ' ' }), OptionError)
    await assert.rejects(store.fail([{ id }], { who: 'ann' } as Required<By>), OptionError)
    await assert.rejects(store.fail([{ id, ifDead: [{ id: '', kind: 'k', payload: '{}' }] }], ANN), OptionError)
    await assert.rejects(store.delete([id], nobody), OptionError)
    assertFields(await get(store, id), { status: 'waiting' })
    assert.deepEqual(await outcomes(store, id), [])
    assert.equal((await claim(store)).tasks.length, 1)
  },
}
