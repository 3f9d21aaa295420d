import assert from 'node:assert/strict'
import { add, assertFields, claim, LEASE_MS, type StoreBehaviours, settle } from '../harness.js'
import { ANN, audit, chunk, counts, end, endings, get, KIND, kill, open, runOf, succeed, take } from './harness.js'

export const REPROCESS: StoreBehaviours = {
  async 'dead items start again at the stage where they died, with the value that they had there'(store, advance) {
    await runOf(store, 3, { onEnd: { kind: 'report', payload: 'null' } })
    const [one, two, three] = await take(store, 3)
    assert.ok(one !== undefined && two !== undefined && three !== undefined)
    await settle(store, one, { type: 'advanced', to: 'call', value: '{"v":1}', keep: false })
    await kill(store, two)
    await succeed(store, three)
    const [late] = await take(store, 1)
    assert.ok(late !== undefined)
    await kill(store, late)
    assertFields(await store.runs.check('r'), { status: 'failed', endings: 1 })
    await advance(10)
    const filter = { pipeline: 'enrich', stage: 'call' }
    assert.deepEqual(await store.runs.reprocess(filter, { limit: 10, by: ANN }), { moved: 1, reopened: ['r'] })
    assert.deepEqual(await store.runs.reprocess(filter, { limit: 10, by: ANN }), { moved: 0, reopened: [] })
    assertFields(await get(store), {
      status: 'running',
      endedAt: undefined,
      counts: counts({ waiting: 1, dead: 1, succeeded: 1 }),
    })
    const [again] = await take(store, 1)
    assertFields(again, { id: one.id, category: 'call', value: '{"v":1}', attempts: 0 })
    const ledger = await store.ledger(one.id)
    assertFields(ledger.at(-1), { outcome: 'redriven', worker: 'ann', reason: ANN.why })
    if (again !== undefined) await succeed(store, again)
    assertFields(await store.runs.check('r'), { status: 'partial_success', endings: 2 })
    assert.deepEqual(
      (await endings(store)).map(ending => (ending as unknown[])[0]),
      ['r:end:1', 'r:end:2'],
    )
  },

  async 'they are chosen by run, stage and error, up to a limit, and up to a time'(store, advance) {
    for (const id of ['a', 'b']) {
      await runOf(store, 3, { id })
      const items = await take(store, 3)
      for (const [index, item] of items.entries()) await kill(store, item, index === 0 ? 'http_500' : 'http_422')
      await store.runs.check(id)
      await advance(100)
    }
    const before = await store.now()
    const by = { limit: 10, by: ANN }
    const died = before - 100
    assert.equal((await store.runs.reprocess({ pipeline: 'other' }, by)).moved, 0)
    assert.equal((await store.runs.reprocess({ pipeline: 'enrich', stage: 'call' }, by)).moved, 0)
    assert.equal((await store.runs.reprocess({ pipeline: 'enrich', run: 'b', diedUntil: died - 1 }, by)).moved, 0)
    const some = await store.runs.reprocess({ pipeline: 'enrich', errorCode: 'http_500' }, by)
    assert.deepEqual([some.moved, [...some.reopened].sort()], [2, ['a', 'b']])
    const filter = { pipeline: 'enrich', run: 'b', diedUntil: died }
    assert.deepEqual(await store.runs.reprocess(filter, { limit: 1, by: ANN }), { moved: 1, reopened: [] })
    assert.deepEqual(await store.runs.reprocess(filter, by), { moved: 1, reopened: [] })
    assert.deepEqual((await get(store, 'a')).counts, counts({ waiting: 1, dead: 2 }))
    assert.deepEqual((await get(store, 'b')).counts, counts({ waiting: 3 }))
  },

  async 'a stage that is gone: its dead and its waiting items move to another one'(store) {
    await runOf(store, 4)
    const [one, two, three] = await take(store, 3)
    assert.ok(one !== undefined && two !== undefined && three !== undefined)
    await kill(store, one)
    await settle(store, two, { type: 'retry', delayMs: 0, isBackoff: true })
    await succeed(store, three)
    const options = { limit: 2, as: 'load', by: ANN }
    const filter = { pipeline: 'enrich', stage: 'fetch' }
    let moved = 0
    for (let last = -1; last !== 0; moved += last) last = (await store.runs.reprocess(filter, options)).moved
    assert.equal(moved, 3)
    const { byStage } = await get(store)
    assert.deepEqual(
      byStage.map(({ stage, counts: { waiting, succeeded } }) => [stage, waiting, succeeded]),
      [
        ['fetch', 0, 1],
        ['call', 0, 0],
        ['load', 3, 0],
      ],
    )
    assert.deepEqual((await claim(store, { kinds: [KIND], categories: ['fetch'] })).tasks, [])
    const { tasks } = await claim(store, { kinds: [KIND], categories: ['load'] })
    assert.deepEqual(
      tasks.map(({ id, attempts }) => [id, attempts]),
      [
        [one.id, 0],
        [two.id, 1],
        ['r:000000000003', 0],
      ],
    )
    for (const item of tasks) await succeed(store, item)
    assertFields(await store.runs.check('r'), { status: 'completed' })
  },

  async 'it is on record who asked, for what, and what it opened again'(store) {
    await runOf(store, 1)
    await end(store, 'd')
    await store.runs.check('r')
    await store.runs.reprocess({ pipeline: 'enrich', errorCode: 'http_422' }, { limit: 5, by: ANN })
    const act = {
      event_type: 'items_reprocessed',
      pipeline: 'enrich',
      error_code: 'http_422',
      count: 1,
      reopened: ['r'],
    }
    assert.deepEqual(await audit(store), [{ ...act, ...ANN, timestamp: new Date(await store.now()).toISOString() }])
  },

  async 'a plain redrive of a dead item opens its run again too'(store) {
    await runOf(store, 1)
    await end(store, 'd')
    await store.runs.check('r')
    await store.redrive(['r:000000000000'], ANN)
    assertFields(await get(store), { status: 'running', counts: counts({ waiting: 1 }) })
    await end(store, 's')
    assertFields(await store.runs.check('r'), { status: 'completed', endings: 2 })
  },

  async 'a redrive of another task whose id looks like an item leaves the run alone'(store) {
    await runOf(store, 1, { onEnd: { kind: 'report', payload: 'null' } })
    await end(store, 's')
    const ended = await store.runs.check('r')
    await add(store, { id: 'r:77', kind: 'report' })
    for (const task of await take(store, 2, 'report')) await kill(store, task)
    const ids = ['r:77', 'r:end:1']
    assert.deepEqual((await store.redrive(ids, ANN)).sort(), ids)
    assert.deepEqual(await get(store), ended)
    assertFields(await store.runs.check('r'), { status: 'completed', endings: 1 })
    await take(store, 2, 'report')
  },

  async 'a plain redrive leaves dead items alone while their run is being cancelled'(store) {
    await runOf(store, 3)
    await end(store, 'd')
    const [running] = await take(store, 1)
    await add(store, { id: 'r:other', kind: 'report' })
    for (const task of await take(store, 1, 'report')) await kill(store, task)
    await store.runs.cancel('r', 10, ANN)
    const item = 'r:000000000000'
    assert.deepEqual(await store.redrive([item, 'r:other'], ANN), ['r:other'])
    assertFields(await store.runs.check('r'), { counts: counts({ running: 1, dead: 1, cancelled: 1 }) })
    assertFields((await store.ledger(item)).at(-1), { outcome: 'dead' })
    if (running !== undefined) await settle(store, running, { type: 'released' })
    assertFields(await store.runs.check('r'), { endings: 1, counts: counts({ dead: 1, cancelled: 2 }) })
    assert.deepEqual(await store.redrive([item], ANN), [item])
    assertFields(await get(store), { status: 'running', endedAt: undefined })
  },

  async 'a redrive with a patch leaves items alone: later stages have their value'(store) {
    await runOf(store, 1)
    await end(store, 'd')
    const set = { filter: {}, until: await store.now() }
    const settings = { patch: { n: 1 } }
    const { id, status, progress } = await store.operations.create({ act: 'redrive', set, by: ANN, settings })
    const { token = '' } = (await store.operations.take(id, 'driver', LEASE_MS)) ?? {}
    const item = 'r:000000000000'
    const step = await store.operations.step(id, token, { leaseMs: LEASE_MS, move: [item], status, progress })
    assert.deepEqual(step?.moved, [])
    assertFields(await store.get(item), { status: 'dead', payload: '0' })
  },

  async 'dead items of a cancelled run can be reprocessed, and the run ends again'(store) {
    await open(store)
    await store.runs.take('r', chunk(3, { isEnd: false }))
    await end(store, 'd')
    const [running] = await take(store, 1)
    await store.runs.cancel('r', 10, ANN)
    await assert.rejects(store.runs.reprocess({ pipeline: 'enrich' }, { limit: 1, by: ANN }), { name: 'RunBusyError' })
    if (running !== undefined) await settle(store, running, { type: 'released' })
    assertFields(await store.runs.check('r'), { status: 'cancelled', endings: 1 })
    assert.equal((await store.runs.reprocess({ pipeline: 'enrich' }, { limit: 1, by: ANN })).moved, 1)
    await end(store, 's')
    assertFields(await store.runs.check('r'), { status: 'completed', counts: counts({ succeeded: 1, cancelled: 2 }) })
  },

  async 'budgets count what died after a reprocess, whatever was dead before'(store) {
    await runOf(store, 40, { settings: { failureBudget: 0.5 } })
    await end(store, 'dddddddddd')
    await store.runs.check('r')
    await store.runs.reprocess({ pipeline: 'enrich', run: 'r' }, { limit: 100, by: ANN })
    await store.runs.change('r', { isPaused: false })
    assertFields(await get(store), { status: 'running', counts: counts({ waiting: 40 }) })
    await end(store, 'dddddddddd')
    assertFields((await store.runs.check('r')).stop, { processed: 10, dead: 10 })
  },
}
