import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { NewTask } from '../../src/store/index.js'
import type { StoreContract } from '../../src/store/internal.js'
import {
  add,
  assertFields,
  assertSame,
  callsDuring,
  claim,
  claimIds,
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

const ANN = { who: 'ann', why: 'a test' } as const

/** Gives up tasks as they are now. */
async function expire(store: StoreContract, ...ids: string[]): Promise<string[]> {
  const tasks = await Promise.all(ids.map(id => get(store, id)))
  return store.lifetimes.expire(tasks.map(({ id, changedAt }) => ({ id, changedAt })))
}

/** Tasks that have failed once and are due again. */
async function retried(store: StoreContract, ...tasks: Partial<NewTask>[]): Promise<void> {
  await add(store, ...tasks)
  const error = { verdict: TIMED_OUT, error: 'Error', group: groupOf('1-late') }
  for (const task of (await claim(store)).tasks)
    await settle(store, task, { type: 'retry', delayMs: 0, isBackoff: true }, error)
}

/** Tasks whose time to live ends while no worker runs them. */
export const LIFETIMES: StoreBehaviours = {
  async 'kinds are listed as they were last declared, and one without a time to live is forgotten'(store) {
    await store.lifetimes.declare([
      { kind: 'a', policy: 'p1', onDead: 'told' },
      { kind: 'b', category: 's', policy: 'p2' },
    ])
    await store.lifetimes.declare([{ kind: 'b', category: 't', policy: 'p2' }, { kind: 'c' }])
    const declared = async () => (await store.lifetimes.list()).map(one => JSON.stringify(one))
    assertSame(await declared(), [
      '{"kind":"a","policy":"p1","onDead":"told"}',
      '{"kind":"b","category":"s","policy":"p2"}',
      '{"kind":"b","category":"t","policy":"p2"}',
    ])
    await store.lifetimes.declare([
      { kind: 'a', policy: 'p3' },
      { kind: 'b', category: 's' },
    ])
    assertSame(await declared(), ['{"kind":"a","policy":"p3"}', '{"kind":"b","category":"t","policy":"p2"}'])
  },

  async 'a task that is given up is a dead letter, without an attempt'(store, advance) {
    await add(store, { id: 'a' }, { id: 'b' })
    await advance(1000)
    assert.deepEqual(await expire(store, 'a'), ['a'])
    const dead = await get(store, 'a')
    assertFields(dead, { status: 'dead', reason: 'ttl_expired', attempts: 0, nextAttemptAt: undefined })
    assert.equal(dead.changedAt, await store.now())
    assert.deepEqual(await store.ledger('a'), [])
    assert.deepEqual(await claimIds(store), ['b'])
    assertFields(await store.count({}), { waiting: 0, running: 1, dead: 1 })
    assert.deepEqual(await store.redrive(['a'], ANN), ['a'])
    assert.deepEqual(await claimIds(store), ['a'])
  },

  async 'a task that has failed before keeps its attempts and its error, and is dead in its group'(store) {
    await retried(store, { id: 'a' })
    assert.deepEqual(await expire(store, 'a'), ['a'])
    assertFields(await get(store, 'a'), { status: 'dead', attempts: 1, errorCode: 'timeout', group: '1-late' })
    assertFields((await store.groups.list({}, { limit: 1 })).items[0], { retrying: 0, dead: 1 })
    assert.equal((await store.ledger('a')).length, 1)
  },

  async 'a task whose worker died is given up before anybody has decided on the loss'(store, advance) {
    await add(store, { id: 'a' })
    await lose(store, advance)
    assert.deepEqual(await expire(store, 'a'), ['a'])
    assertFields(await get(store, 'a'), { status: 'dead', reason: 'ttl_expired', losses: 1 })
    const [lost] = await store.ledger('a')
    assertFields(lost, { outcome: 'lost', reason: 'ttl_expired' })
  },

  async 'a task that has changed since it was read is left alone: claimed, cancelled, redriven or handed back'(
    store,
    advance,
  ) {
    const ids = await add(store, { id: 'claimed' }, { id: 'cancelled' }, { id: 'redriven' }, { id: 'same' })
    const read = (await Promise.all(ids.map(id => get(store, id)))).map(({ id, changedAt }) => ({ id, changedAt }))
    await advance(1)
    await store.cancel(['cancelled'])
    const { tasks } = await claim(store)
    for (const task of tasks) {
      if (task.id === 'same') await settle(store, task, { type: 'released' })
      if (task.id === 'redriven') await kill(store, task)
    }
    await store.redrive(['redriven'], ANN)
    assert.deepEqual(await store.lifetimes.expire([...read, { id: 'unknown', changedAt: 1 }]), [])
    assert.deepEqual(await expire(store, 'same'), ['same'])
    assert.equal((await get(store, 'claimed')).status, 'running')
  },

  async 'tasks in a paused lane are left alone'(store) {
    await add(store, { id: 'a', key: 'paused' }, { id: 'b' })
    await store.pause({ kind: 'k', key: 'paused' }, { isPaused: true })
    assert.deepEqual(await expire(store, 'a', 'b'), ['b'])
  },

  async 'the head of an ordered lane makes way, unless its lane stops at dead letters'(store) {
    await store.limit({ kind: 'k', key: 'on' }, { isOrdered: true })
    await store.limit({ kind: 'k', key: 'stop' }, { isOrdered: true, onDead: 'block' })
    await retried(store, { id: 'on-1', key: 'on' }, { id: 'stop-1', key: 'stop' })
    await add(store, { id: 'on-2', key: 'on' }, { id: 'stop-2', key: 'stop' })
    await expire(store, 'on-1', 'stop-1')
    assert.deepEqual(await claimIds(store), ['on-2'])
  },

  async 'retries that a budget holds are given up'(store) {
    await store.budgets.set({ kind: 'k' }, { retries: { share: 0.01, windowMs: 60_000, floor: 1 / 60 } })
    await retried(store, { id: 'a' }, { id: 'b' }, { id: 'c' })
    assertSame(await expire(store, 'a', 'b', 'c'), ['a', 'b', 'c'])
    assertFields(await store.count({}), { waiting: 0, dead: 3 })
    assert.deepEqual(await claimIds(store), [])
  },

  async 'the operation that has redriven a task counts its death'(store) {
    await kill(store, await start(store, { id: 'a' }))
    const operation = await createRedrive(store)
    await move(store, operation, await take(store, operation.id), ['a'])
    await expire(store, 'a')
    assertFields((await store.operations.get(operation.id))?.tally, { dead: 1, unanswered: 1 })
  },

  async 'the tasks that follow a death are enqueued with it, and those of one that is left alone are not'(store) {
    await add(store, { id: 'a' }, { id: 'b' })
    const { changedAt } = await get(store, 'a')
    const told = (id: string) => [{ id: `${id}/told`, kind: 'tell', payload: '{}' }]
    const rings = await callsDuring(store, () =>
      store.lifetimes.expire([
        { id: 'a', changedAt, ifDead: told('a') },
        { id: 'b', changedAt: changedAt - 1, ifDead: told('b') },
      ]),
    )
    assert.ok(rings > 0, 'whoever claims the follower should be rung')
    assert.deepEqual(
      (await store.list({ kind: 'tell' }, { limit: 9 })).items.map(({ id }) => id),
      ['a/told'],
    )
  },

  async 'items that are given up end their run, or stop it where its failure budget is exceeded'(store) {
    await runOf(store, 2, { id: 'ends', settings: { partialFrom: 0 } })
    await runOf(store, 20, { id: 'stops', settings: { failureBudget: 0.2 } })
    const itemsOf = async (run: string) => (await store.list({ key: run }, { limit: 100 })).items
    await store.lifetimes.expire(await itemsOf('ends'))
    assertFields(await store.runs.get('ends'), { status: 'partial_success', endedAt: await store.now() })
    const items = await itemsOf('stops')
    assert.equal((await store.lifetimes.expire(items.slice(0, 10))).length, 10)
    assertFields(await store.runs.get('stops'), { status: 'stopped' })
    assert.deepEqual(await store.lifetimes.expire(items.slice(10)), [])
  },

  async 'who waits for its end is told'(store) {
    await add(store, { id: 'a' })
    let calls = 0
    const stop = store.watchEnd('a', () => calls++)
    await expire(store, 'a')
    for (let turn = 0; turn < 100 && calls === 0; turn++) await new Promise(resolve => setTimeout(resolve, 10))
    stop()
    assert.ok(calls > 0)
  },

  async 'bad arguments are refused, by name'(store) {
    await assert.rejects(store.lifetimes.declare([{ kind: 'k\0', policy: 'p' }]), OptionError)
    await assert.rejects(store.lifetimes.expire([{ id: 'a', changedAt: Number.NaN }]), OptionError)
    await assert.rejects(
      store.lifetimes.expire([{ id: 'a', changedAt: 1, ifDead: [{ id: '', kind: 'k', payload: '{}' }] }]),
      OptionError,
    )
  },
}
