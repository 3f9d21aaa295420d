import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import {
  add,
  addOne,
  claim,
  claimOne,
  entry,
  get,
  kill,
  type StoreBehaviours,
  settle,
  start,
  TIMED_OUT,
} from './harness.js'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const OTHER_TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
const TRACEPARENT = `00-${TRACE}-b7ad6b7169203331-01`
const RETRY = { type: 'retry', delayMs: 0, isBackoff: true } as const

export const TRACES: StoreBehaviours = {
  async 'a task keeps the traceparent that it was enqueued with, and a claim hands it out'(store) {
    const [traced = '', plain = ''] = await add(store, { traceparent: TRACEPARENT }, {})
    const { tasks } = await claim(store)
    assert.deepEqual(
      tasks.map(({ id, traceparent }) => [id, traceparent]),
      [
        [traced, TRACEPARENT],
        [plain, undefined],
      ],
    )
    for (const task of tasks) await kill(store, task)
    assert.equal((await get(store, traced)).traceparent, TRACEPARENT)
    assert.equal((await get(store, plain)).traceparent, undefined)
    const { items } = await store.list({ status: 'dead' }, { limit: 10 })
    assert.deepEqual(new Set(items.map(({ traceparent }) => traceparent)), new Set([TRACEPARENT, undefined]))
  },

  async 'a traceparent that is none is refused, and the task with it'(store) {
    const wrong = [
      'trace',
      TRACE,
      TRACEPARENT.toUpperCase(),
      `01${TRACEPARENT.slice(2)}`,
      `${TRACEPARENT}-more`,
      `00-${'0'.repeat(32)}-b7ad6b7169203331-01`,
      `00-${TRACE}-${'0'.repeat(16)}-01`,
    ]
    for (const traceparent of wrong) await assert.rejects(add(store, { traceparent }), OptionError)
    assert.deepEqual((await claim(store)).tasks, [])
  },

  async 'the ledger keeps the trace of each attempt'(store) {
    const task = await start(store, { traceparent: TRACEPARENT })
    await settle(store, task, RETRY, { verdict: TIMED_OUT, error: 'Error: slow', trace: TRACE })
    const retried = await claimOne(store)
    assert.equal(retried.traceparent, TRACEPARENT)
    await settle(store, retried, { type: 'succeeded', result: '1' }, { trace: OTHER_TRACE })
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(({ outcome, trace }) => [outcome, trace]),
      [
        ['retry', TRACE],
        ['succeeded', OTHER_TRACE],
      ],
    )
    assert.equal((await get(store, task.id)).result, '1')
  },

  async 'a task that succeeds at once is in the trace that enqueued it'(store) {
    const task = await start(store, { traceparent: TRACEPARENT })
    await settle(store, task, { type: 'succeeded' })
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(({ trace }) => trace),
      [TRACE],
    )
  },

  async 'a task that succeeds at once is in that trace though somebody asked to cancel it meanwhile'(store) {
    const task = await start(store, { traceparent: TRACEPARENT })
    await store.cancel([task.id], { who: 'ada' })
    await settle(store, task, { type: 'succeeded' })
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(({ outcome, trace }) => [outcome, trace]),
      [
        ['cancel_requested', undefined],
        ['succeeded', TRACE],
      ],
    )
  },

  async 'a later success without a trace has none'(store) {
    const task = await start(store, { traceparent: TRACEPARENT })
    await settle(store, task, RETRY, { verdict: TIMED_OUT, error: 'Error: slow' })
    await settle(store, await claimOne(store), { type: 'succeeded' })
    const rows = await store.ledger(task.id)
    assert.deepEqual(
      rows.map(({ trace }) => trace),
      [undefined, undefined],
    )
  },

  async 'a first attempt that was made elsewhere keeps its trace'(store) {
    const id = await addOne(store)
    const attempt = entry(await get(store, id), { verdict: TIMED_OUT, error: 'Error: slow', trace: TRACE })
    const tried = await addOne(store, { id: 'tried', traceparent: TRACEPARENT, tried: { outcome: RETRY, attempt } })
    const { tasks } = await claim(store)
    const claimed = tasks.find(task => task.id === tried)
    assert.deepEqual([claimed?.isFirst, claimed?.traceparent], [false, TRACEPARENT])
    const rows = await store.ledger(tried)
    assert.deepEqual(
      rows.map(({ trace }) => trace),
      [TRACE],
    )
  },

  async 'an item that advances keeps its traceparent, and the trace of each stage'(store) {
    const item = await start(store, { category: 'a', key: 'run', traceparent: TRACEPARENT })
    const advanced = { type: 'advanced', to: 'b', value: '1', keep: false } as const
    await settle(store, item, advanced, { trace: TRACE, version: '1' })
    const next = await claimOne(store)
    assert.deepEqual([next.category, next.traceparent, next.isFirst], ['b', TRACEPARENT, false])
    await kill(store, next)
    const rows = await store.ledger(item.id)
    assert.deepEqual(
      rows.map(({ trace, version }) => [trace, version]),
      [
        [TRACE, '1'],
        [undefined, undefined],
      ],
    )
  },

  async 'a claim tells first attempts from those that have a history'(store) {
    const task = await start(store)
    assert.equal(task.isFirst, true)
    await store.settle([{ id: task.id, token: task.token, outcome: { type: 'released' } }])
    const released = await claimOne(store)
    assert.equal(released.isFirst, true)
    await settle(store, released, { type: 'later', delayMs: 0 })
    const later = await claimOne(store)
    assert.equal(later.isFirst, false)
    await kill(store, later)
    await store.redrive([task.id], { who: 'ops' })
    assert.equal((await claimOne(store)).isFirst, false)
  },
}
