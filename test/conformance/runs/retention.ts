import assert from 'node:assert/strict'
import { add, type StoreBehaviours, settle } from '../harness.js'
import { chunk, counts, end, get, KIND, open, runOf, take } from './harness.js'

export const RETENTION: StoreBehaviours = {
  async 'items are forgotten with their run, as a whole, once it has ended for long enough'(store, advance) {
    await runOf(store, 3, { hasOwnIds: false, hasOutput: true })
    await end(store, 'ss')
    await advance(10_000)
    assert.equal(await store.prune({ endedMs: 1000, deadMs: 1000 }, 100), 0)
    await end(store, 's')
    await store.runs.check('r')
    await advance(999)
    assert.equal(await store.prune({ endedMs: 1000, deadMs: 1000 }, 100), 0)
    await advance(1)
    const counted = { tasks: 0, deadLetters: 0, runs: 1, items: 3, keys: 0, records: 0 }
    assert.deepEqual(await store.prunable({ endedMs: 1000, deadMs: 1000 }), counted)
    assert.equal(await store.prune({ endedMs: 1000, deadMs: 1000 }, 100), 4)
    assert.equal(await store.runs.get('r'), undefined)
    assert.equal(await store.get('r:000000000000'), undefined)
    assert.deepEqual(await store.ledger('r:000000000000'), [])
    assert.deepEqual(await store.lanes({ kind: KIND }), [])
    assert.equal((await store.count({})).succeeded, 0)
  },

  async 'a run with dead items is kept as long as dead letters are'(store, advance) {
    await runOf(store, 2)
    await end(store, 'sd')
    await store.runs.check('r')
    await advance(1000)
    assert.equal(await store.prune({ endedMs: 1000 }, 100), 0)
    assert.equal(await store.prune({ endedMs: 1000, deadMs: 5000 }, 100), 0)
    await advance(4000)
    assert.equal(await store.prune({ endedMs: 1000, deadMs: 5000 }, 100), 3)
    assert.equal(await store.get('r:000000000001'), undefined)
  },

  async 'a large run goes in several calls, and is not seen any more from the first on'(store, advance) {
    await runOf(store, 10)
    await end(store, 's'.repeat(10))
    await store.runs.check('r')
    await add(store, { id: 'plain' })
    await advance(1000)
    assert.equal(await store.prune({ endedMs: 1000 }, 4), 4)
    assert.equal(await store.runs.get('r'), undefined)
    assert.deepEqual((await store.runs.list({}, { limit: 10 })).items, [])
    await assert.rejects(store.runs.check('r'), { name: 'RunNotFoundError' })
    await assert.rejects(open(store), { name: 'RunExistsError' })
    assert.equal((await store.count({})).succeeded, 6)
    assert.equal(await store.prune({ endedMs: 1000 }, 4), 4)
    assert.equal(await store.prune({ endedMs: 1000 }, 4), 3)
    assert.equal(await store.prune({ endedMs: 1000 }, 4), 0)
    assert.deepEqual(await store.count({}), counts({ waiting: 1 }))
  },

  async 'the dead items of a run that is being forgotten are not redriven'(store, advance) {
    await runOf(store, 10)
    await end(store, 'd'.repeat(10))
    await store.runs.check('r')
    await advance(1000)
    const keep = { endedMs: 1000, deadMs: 1000 }
    assert.equal(await store.prune(keep, 4), 4)
    const left = (await store.list({ status: 'dead' }, { limit: 100 })).items.map(({ id }) => id)
    assert.equal(left.length, 6)
    assert.deepEqual(await store.redrive(left, { who: 'ada' }), [])
    assert.equal(await store.prune(keep, 100), 7)
    assert.deepEqual(await store.count({}), counts({}))
  },

  async 'the id of a forgotten run is free'(store, advance) {
    await runOf(store, 2, { hasOwnIds: false })
    await end(store, 'ss')
    await store.runs.check('r')
    await advance(1000)
    await store.prune({ endedMs: 1000 }, 100)
    await runOf(store, 2)
    const [item] = await take(store, 1)
    assert.ok(item !== undefined)
    await settle(store, item, { type: 'advanced', to: 'call', value: '1', keep: false })
    assert.deepEqual((await get(store)).byStage, [
      { stage: 'fetch', counts: counts({ waiting: 1 }) },
      { stage: 'call', counts: counts({ waiting: 1 }) },
    ])
    assert.deepEqual(
      (await store.runs.items('r', { limit: 10 })).items.map(({ id }) => id),
      ['r:000000000000', 'r:000000000001'],
    )
  },

  async 'own ids and outputs are forgotten with the run'(store, advance) {
    await open(store, { hasOwnIds: true, hasOutput: true })
    await store.runs.take('r', chunk(0, { items: [{ id: 'x', payload: '1' }] }))
    await end(store, 's')
    await store.runs.check('r')
    await advance(1000)
    await store.prune({ endedMs: 1000 }, 100)
    await open(store, { hasOwnIds: true, hasOutput: true })
    assert.deepEqual((await store.runs.items('r', { limit: 10 })).items, [])
    assert.deepEqual(await store.runs.outputs('r', 10), [])
  },
}
