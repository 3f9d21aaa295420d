import assert from 'node:assert/strict'
import { assertFields, claim, type StoreBehaviours, settle } from '../harness.js'
import { ANN, counts, end, get, KIND, kill, runOf, succeed, take } from './harness.js'

export const BUDGETS: StoreBehaviours = {
  async 'a run stops when its budget is exceeded at a check, and says what was common'(store) {
    await runOf(store, 100, { settings: { failureBudget: 0.1 } })
    const items = await take(store, 12)
    for (const item of items.slice(0, 8)) await succeed(store, item)
    const [bad, other] = items.slice(8)
    assert.ok(bad !== undefined && other !== undefined)
    await kill(store, bad)
    assertFields(await store.runs.check('r'), { status: 'running' })
    await kill(store, other, 'http_500')
    const run = await store.runs.check('r')
    assertFields(run, { status: 'stopped', endedAt: undefined })
    assertFields(run.stop, { stage: undefined, processed: 10, dead: 2, rate: 0.2, budget: 0.1 })
    assert.equal(run.stop?.cause?.stage, 'fetch')
    assert.equal(run.stop?.cause?.share, 0.5)
    assert.deepEqual((await claim(store, { kinds: [KIND] })).tasks, [])
    assert.deepEqual(run.counts, counts({ waiting: 88, running: 2, succeeded: 8, dead: 2 }))
  },

  async 'a run that its budget stopped does not go on because lanes are paused and resumed'(store) {
    await runOf(store, 20, { settings: { failureBudget: 0.1 } })
    await end(store, 'dddddddddd')
    assertFields(await store.runs.check('r'), { status: 'stopped' })
    for (const lanes of [{ kind: KIND }, { kind: KIND, category: 'fetch' }]) {
      await store.pause(lanes, { isPaused: true })
      await store.pause(lanes, { isPaused: false })
      assert.deepEqual((await claim(store, { kinds: [KIND] })).tasks, [])
    }
    await store.runs.change('r', { isPaused: false, settings: { failureBudget: 1 } })
    assert.equal((await claim(store, { kinds: [KIND], limit: 5 })).tasks.length, 5)
  },

  async 'the cause is the commonest error with its stage'(store) {
    await runOf(store, 20, { settings: { failureBudget: 0.5 } })
    const items = await take(store, 10)
    for (const item of items.slice(0, 3)) {
      await settle(store, item, { type: 'advanced', to: 'call', value: '1', keep: false })
    }
    for (const item of items.slice(3)) await kill(store, item, 'http_500')
    for (const item of (await claim(store, { kinds: [KIND], categories: ['call'] })).tasks) await kill(store, item)
    const { stop } = await store.runs.check('r')
    assert.deepEqual(stop?.cause, { errorCode: 'http_500', stage: 'fetch', share: 0.7 })
  },

  async 'a budget that is just met does not stop the run, and neither does one over it between two checks'(store) {
    await runOf(store, 100, { settings: { failureBudget: 0.2 } })
    await end(store, 'ddssssssss')
    assertFields(await store.runs.check('r'), { status: 'running' })
    await end(store, 'ddddddddd')
    assertFields(await store.runs.check('r'), { status: 'running' })
    await end(store, 's')
    assertFields(await store.runs.check('r'), { status: 'stopped' })
  },

  async 'a run with no work left ends instead of being stopped'(store) {
    await runOf(store, 10, { settings: { failureBudget: 0.1 } })
    await end(store, 'dddddddddd')
    assertFields(await store.runs.check('r'), { status: 'failed', stop: undefined })
  },

  async 'a run that has failed names its commonest failure, until it is open again'(store) {
    await runOf(store, 4, { settings: { partialFrom: 0.9 } })
    const [first, second, third, last] = await take(store, 4)
    assert.ok(first && second && third && last)
    await kill(store, first, 'http_500')
    await kill(store, second)
    await kill(store, third)
    assertFields(await store.runs.check('r'), { cause: undefined })
    await succeed(store, last)
    const cause = { errorCode: 'http_422', stage: 'fetch', share: 2 / 3 }
    assertFields(await store.runs.check('r'), { status: 'failed', cause })
    assertFields(await get(store), { cause })
    await store.redrive([first.id], ANN)
    assertFields(await get(store), { status: 'running', cause: undefined })
    await store.redrive([second.id, third.id], ANN)
    await end(store, 'sss')
    assertFields(await store.runs.check('r'), { status: 'completed', cause: undefined })
  },

  async 'after a stop the budget counts afresh'(store) {
    await runOf(store, 100, { settings: { failureBudget: 0.5 } })
    await end(store, 'dddddddddd')
    assertFields(await store.runs.check('r'), { status: 'stopped' })
    assertFields(await store.runs.change('r', { isPaused: false }), { status: 'running', stop: undefined })
    assertFields(await store.runs.check('r'), { status: 'running' })
    await end(store, 'ddddddddd')
    assertFields(await store.runs.check('r'), { status: 'running' })
    await end(store, 'd')
    assertFields((await store.runs.check('r')).stop, { processed: 10, dead: 10 })
  },

  async 'redriven items leave the figures that counted them, and only those'(store, advance) {
    await runOf(store, 100, { settings: { failureBudget: 0.5 } })
    await end(store, 'dddddddddd')
    assertFields(await store.runs.check('r'), { status: 'stopped' })
    const old = (await store.runs.items('r', { limit: 10 }, 'dead')).items.map(({ id }) => id)
    await advance(10)
    await store.runs.change('r', { isPaused: false })
    await advance(10)
    await end(store, 'ddddd')
    assert.equal((await store.redrive(old, ANN)).length, 10)
    await end(store, 'dssss')
    assertFields((await store.runs.check('r')).stop, { processed: 10, dead: 6 })
  },

  async 'a window forgets old failures, and sees new ones that all figures together would hide'(store) {
    const settings = { failureBudget: 0.5, budgetWindow: 20 }
    await runOf(store, 300, { settings })
    for (let count = 0; count < 10; count++) {
      await end(store, 'ssssssssss')
      assertFields(await store.runs.check('r'), { status: 'running' })
    }
    await end(store, 'dddddddddd')
    assertFields(await store.runs.check('r'), { status: 'running' })
    await end(store, 'dddddddddd')
    const { stop } = await store.runs.check('r')
    assertFields(stop, { processed: 20, dead: 20 })
  },

  async 'a stage has its own budget: of the items that have left it'(store) {
    await runOf(store, 100, { settings: { stageBudgets: { call: 0.3 } } })
    for (const item of await take(store, 20)) {
      await settle(store, item, { type: 'advanced', to: 'call', value: '1', keep: false })
    }
    const { tasks } = await claim(store, { kinds: [KIND], categories: ['call'] })
    for (const [index, item] of tasks.entries()) {
      if (index % 2 === 0) await kill(store, item)
      else await succeed(store, item)
      if (index === 9) break
    }
    const { stop, status } = await store.runs.check('r')
    assert.equal(status, 'stopped')
    assertFields(stop, { stage: 'call', processed: 10, dead: 5, rate: 0.5, budget: 0.3 })
  },

  async 'a budget of 1 never stops a run'(store) {
    await runOf(store, 50)
    await end(store, 'd'.repeat(40))
    assertFields(await store.runs.check('r'), { status: 'running' })
  },
}
