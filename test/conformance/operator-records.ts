import assert from 'node:assert/strict'
import { OptionError } from '../../src/policy/index.js'
import type { OperatorRecord, StoreContract } from '../../src/store/internal.js'
import { add, type StoreBehaviours, settle, start } from './harness.js'

const ANN = { who: 'ann', why: 'the shop is closed' }

export const OPERATOR_RECORDS: StoreBehaviours = {
  async 'a cancellation with `by` records who, why and which tasks end'(store) {
    await settle(store, await start(store, { id: 'done' }), { type: 'succeeded' })
    await start(store, { id: 'running' })
    await add(store, { id: 'waiting' })
    await store.cancel(['waiting', 'done', 'running', 'unknown', 'waiting'], ANN)
    const act = { event_type: 'tasks_cancelled', count: 2, ids: ['waiting', 'running'] }
    assert.deepEqual(await records(store), [{ ...act, ...ANN, timestamp: await timestamp(store) }])
  },

  async 'a cancellation that ends nothing is on record too'(store) {
    await store.cancel(['unknown'], { who: 'ann' })
    await store.cancel([], { who: 'bob' })
    assert.deepEqual(
      (await records(store)).map(({ who, why, ...act }) => [who, why, 'count' in act && act.count]),
      [
        ['ann', null, 0],
        ['bob', null, 0],
      ],
    )
  },

  async 'the record of many cancelled tasks has their number and the first hundred'(store) {
    const ids = await add(store, ...Array.from({ length: 250 }, () => ({})))
    await store.cancel(ids, ANN)
    const [record] = await records(store)
    assert.ok(record?.event_type === 'tasks_cancelled')
    assert.deepEqual([record.count, record.ids], [250, ids.slice(0, 100)])
  },

  async 'a discard records who, why and which dead letters'(store) {
    const task = await start(store, { id: 'dead' })
    await settle(store, task, { type: 'dead', reason: 'final_error' })
    await add(store, { id: 'waiting' })
    await store.discard(['waiting', 'dead', 'dead'], ANN)
    const act = { event_type: 'tasks_discarded', count: 1, ids: ['dead'] }
    assert.deepEqual(await records(store), [{ ...act, ...ANN, timestamp: await timestamp(store) }])
  },

  async 'a pause and a resumption with `who` are on record, with the lanes that they name'(store, advance) {
    const lanes = { kind: 'k', category: '' }
    await store.pause(lanes, { isPaused: true, ...ANN })
    const pausedAt = await timestamp(store)
    await advance(1000)
    await store.pause({ kind: 'k' }, { isPaused: false, who: 'bob' })
    assert.deepEqual(await records(store), [
      { event_type: 'lanes_paused', lanes, ...ANN, timestamp: pausedAt },
      { event_type: 'lanes_resumed', lanes: { kind: 'k' }, who: 'bob', why: null, timestamp: await timestamp(store) },
    ])
  },

  async 'new limits with `by` are on record as they hold'(store) {
    const lane = { kind: 'k', category: '', key: 't' }
    await store.limit(lane, { perSecond: 2.5, isOrdered: true }, ANN)
    await store.limit({ kind: 'k' }, {}, ANN)
    const limits = { concurrency: 1, per_second: 2.5, is_ordered: true }
    const by = { ...ANN, timestamp: await timestamp(store) }
    assert.deepEqual(await records(store), [
      { event_type: 'lanes_limited', lanes: lane, limits, ...by },
      { event_type: 'lanes_limited', lanes: { kind: 'k' }, limits: {}, ...by },
    ])
  },

  async 'what is refused is not on record'(store) {
    await assert.rejects(store.limit({ kind: 'k' }, { concurrency: -1 }, ANN), OptionError)
    assert.deepEqual(await records(store), [])
  },

  async 'without `by` nothing is on record'(store) {
    await store.cancel(await add(store, {}))
    await store.pause({ kind: 'k' }, { isPaused: true })
    await store.limit({ kind: 'k' }, { concurrency: 1 })
    assert.deepEqual(await records(store), [])
  },

  async 'any text may be the reason'(store) {
    const why = `it's "off" \n é 😀 \u0000 \ud800`
    await store.pause({ kind: 'k' }, { isPaused: true, who: 'ann', why })
    assert.equal((await records(store))[0]?.why, why)
  },
}

async function records(store: StoreContract): Promise<OperatorRecord[]> {
  const { items } = await store.audit.page({ limit: 100 })
  return items.map(item => JSON.parse(item))
}

async function timestamp(store: StoreContract): Promise<string> {
  return new Date(await store.now()).toISOString()
}
