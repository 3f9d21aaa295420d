import assert from 'node:assert/strict'
import { assertFields, claim, type StoreBehaviours, settle } from '../harness.js'
import { ANN, audit, end, KIND, kill, runOf, SETTINGS, take } from './harness.js'

export const CHANGES: StoreBehaviours = {
  async 'a paused run gives no items, also at stages that it has not reached, and goes on'(store) {
    await runOf(store, 3)
    const [item] = await take(store, 1)
    assertFields(await store.runs.change('r', { isPaused: true }), { status: 'paused', revision: 2 })
    assert.ok(item !== undefined)
    assert.equal(await settle(store, item, { type: 'advanced', to: 'new', value: '1', keep: true }), 'settled')
    assert.deepEqual((await claim(store, { kinds: [KIND] })).tasks, [])
    assertFields(await store.runs.change('r', { isPaused: false }), { status: 'running' })
    assert.equal((await take(store, 3)).length, 3)
  },

  async 'the pause of a run leaves other runs alone, and nothing behind'(store) {
    await runOf(store, 1)
    await runOf(store, 1, { id: 'other' })
    await store.pause({ kind: KIND }, { isPaused: true })
    await store.runs.change('r', { isPaused: true })
    await store.runs.change('r', { isPaused: false })
    assert.deepEqual((await claim(store, { kinds: [KIND] })).tasks, [], 'the pause of the whole pipeline still holds')
    await store.pause({ kind: KIND }, { isPaused: false })
    await store.runs.change('other', { isPaused: true })
    assert.equal((await take(store, 1))[0]?.key, 'r')
  },

  async 'settings can be changed while it runs; others stay, and the revision grows'(store) {
    await runOf(store, 5, { settings: { budgetWindow: 50 } })
    const change = { settings: { failureBudget: 0.5, concurrency: { call: 3 } } }
    assertFields(await store.runs.change('r', change), {
      revision: 2,
      settings: { ...SETTINGS, budgetWindow: 50, failureBudget: 0.5, concurrency: { call: 3 } },
    })
    const run = await store.runs.change('r', { settings: { budgetWindow: undefined } })
    assert.equal(run.settings.budgetWindow, undefined)
    assert.equal(run.revision, 3)
  },

  async 'a budget that is set later is checked at once, with all that ended before'(store) {
    await runOf(store, 100)
    await end(store, 'd'.repeat(15))
    await store.runs.change('r', { settings: { failureBudget: 0.1 } })
    assertFields((await store.runs.check('r')).stop, { processed: 15, dead: 15 })
  },

  async 'stages and version of the code of today are noted'(store) {
    await runOf(store, 1)
    const stages = ['fetch', 'parse', 'call']
    const run = await store.runs.change('r', { stages, version: 'v2' })
    assertFields(run, { stages, version: 'v2' })
    assert.deepEqual(
      run.byStage.map(({ stage }) => stage),
      stages,
    )
    assert.equal((await store.lanes({ kind: KIND, category: 'parse', key: 'r' })).length, 1)
  },

  async 'a run that has ended cannot be paused or resumed'(store) {
    await runOf(store, 0)
    await store.runs.check('r')
    await assert.rejects(store.runs.change('r', { isPaused: true }), { name: 'RunEndedError' })
    await assert.rejects(store.runs.change('r', { isPaused: false }), { name: 'RunEndedError' })
  },

  async 'a paused run whose last items end is over, and leaves no pause behind'(store, advance) {
    await runOf(store, 1)
    const [item] = await take(store, 1)
    await store.runs.change('r', { isPaused: true })
    if (item !== undefined) await kill(store, item)
    assertFields(await store.runs.check('r'), { status: 'failed' })
    await advance(1)
    await store.runs.reprocess({ pipeline: 'enrich', run: 'r' }, { limit: 10, by: ANN })
    assert.equal((await take(store, 1)).length, 1)
  },

  async 'changes with `by` are on record'(store) {
    await runOf(store, 1)
    await store.runs.change('r', { settings: { failureBudget: 0.2 }, isPaused: true }, ANN)
    await store.runs.change('r', { isPaused: false })
    const timestamp = new Date(await store.now()).toISOString()
    assert.deepEqual(await audit(store), [
      { event_type: 'run_changed', run: 'r', settings: { failureBudget: 0.2 }, is_paused: true, ...ANN, timestamp },
    ])
  },
}
