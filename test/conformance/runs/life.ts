import assert from 'node:assert/strict'
import { OptionError } from '../../../src/policy/index.js'
import type { RunStatus } from '../../../src/store/internal.js'
import { assertFields, type StoreBehaviours } from '../harness.js'
import { ANN, chunk, counts, end, get, KIND, open, runOf, take } from './harness.js'

export const LIFE: StoreBehaviours = {
  async 'a new run is running, empty, and has a lane for each stage'(store) {
    const now = await store.now()
    const run = await open(store, { about: '{"in":"a.jsonl"}' })
    assertFields(run, { id: 'r', pipeline: 'enrich', version: 'v1', status: 'running', revision: 1, position: 0 })
    assertFields(run, { createdAt: now, changedAt: now, endedAt: undefined, endings: 0, about: '{"in":"a.jsonl"}' })
    assertFields(run, { isRead: false, reader: undefined, duplicates: 0, stop: undefined, hasOwnIds: false })
    assert.deepEqual(run.counts, counts({}))
    assert.deepEqual(run.byStage, [
      { stage: 'fetch', counts: counts({}) },
      { stage: 'call', counts: counts({}) },
    ])
    assert.deepEqual(await get(store), run)
    assert.equal((await store.lanes({ kind: KIND, key: 'r' })).length, 2)
  },

  async 'an id that is taken is a RunExistsError, and a run that does not exist a RunNotFoundError'(store) {
    await open(store)
    await assert.rejects(open(store, { pipeline: 'other' }), { name: 'RunExistsError' })
    assert.equal(await store.runs.get('none'), undefined)
    for (const call of [
      () => store.runs.read('none', 'a', 1),
      () => store.runs.take('none', chunk(1)),
      () => store.runs.check('none'),
      () => store.runs.change('none', { isPaused: true }),
      () => store.runs.items('none', { limit: 1 }),
      () => store.runs.cancel('none', 1, ANN),
      () => store.runs.outputs('none', 1),
      () => store.runs.written('none', [], 0),
    ])
      await assert.rejects(call(), { name: 'RunNotFoundError' }, String(call))
  },

  async 'bad arguments are OptionErrors that name the option'(store) {
    await open(store)
    const calls: readonly [string, () => Promise<unknown>][] = [
      ['id', () => open(store, { id: 'a:b' })],
      ['id', () => open(store, { id: '' })],
      ['id', () => open(store, { id: 'x'.repeat(101) })],
      ['pipeline', () => open(store, { id: 'x', pipeline: '' })],
      ['stages', () => open(store, { id: 'x', stages: [] })],
      ['stages', () => open(store, { id: 'x', stages: ['a', 'a'] })],
      ['failureBudget', () => open(store, { id: 'x', settings: { failureBudget: 1.1 } })],
      ['checkInterval', () => open(store, { id: 'x', settings: { checkInterval: 0 } })],
      ['stageBudgets.call', () => open(store, { id: 'x', settings: { stageBudgets: { call: -1 } } })],
      ['onEnd', () => open(store, { id: 'x', onEnd: { kind: 'report', payload: '{' } })],
      ['failureBudget', () => store.runs.change('r', { settings: { failureBudget: Number.NaN } })],
      ['isPaused', () => store.runs.change('r', { isPaused: 1 as never })],
      ['stages', () => store.runs.change('r', { stages: [] })],
      ['reader', () => store.runs.read('r', 5 as never, 1)],
      ['leaseMs', () => store.runs.read('r', 'a', -1)],
      ['position', () => store.runs.take('r', chunk(1, { position: 0.5 }))],
      ['payload', () => store.runs.take('r', chunk(0, { items: [{ payload: '1' }, { payload: 5 as never }] }))],
      ['limit', () => store.runs.list({}, { limit: -1 })],
      ['status', () => store.runs.list({ status: 'ended' as never }, { limit: 1 })],
      ['limit', () => store.runs.cancel('r', 0.5, ANN)],
      ['who', () => store.runs.cancel('r', 1, {} as never)],
      ['who', () => store.runs.reprocess({ pipeline: 'enrich' }, { limit: 1, by: {} as never })],
      ['as', () => store.runs.reprocess({ pipeline: 'enrich' }, { limit: 1, as: 'x', by: ANN })],
      ['stages', () => store.runs.reprocess({ pipeline: 'p', stages: 'x' } as never, { limit: 1, by: ANN })],
      ['outputBytes', () => store.runs.written('r', [], -1)],
    ]
    for (const [option, call] of calls) {
      await assert.rejects(call(), (error: unknown) => {
        assert.ok(error instanceof OptionError, `${option}: ${error}`)
        assert.equal(error.option, option)
        return true
      })
    }
    assertFields(await get(store), { position: 0, revision: 1, status: 'running' })
    assert.deepEqual((await store.count({})).waiting, 0)
  },

  async 'items are tasks at the first stage, found by run and position'(store) {
    const run = await runOf(store, 3)
    assertFields(run, { position: 3, isRead: true, reader: undefined, status: 'running' })
    assert.deepEqual(run.counts, counts({ waiting: 3 }))
    const [item] = await take(store, 1)
    assertFields(item, { id: 'r:000000000000', kind: KIND, category: 'fetch', key: 'r', payload: '0' })
    assert.deepEqual((await get(store)).byStage[0], { stage: 'fetch', counts: counts({ waiting: 2, running: 1 }) })
  },

  async 'chunks continue where the last one ended, with the cursor of the source'(store) {
    await open(store)
    await store.runs.take('r', chunk(2, { isEnd: false, cursor: '{"byte":20}' }))
    assertFields(await get(store), { position: 2, cursor: '{"byte":20}', isRead: false })
    await store.runs.take('r', chunk(1, { position: 2, isEnd: false }))
    await store.runs.take('r', chunk(0, { position: 3 }))
    assertFields(await get(store), { position: 3, cursor: '{"byte":20}', isRead: true })
    const { items } = await store.runs.items('r', { limit: 10 })
    assert.deepEqual(
      items.map(({ id }) => id),
      ['r:000000000000', 'r:000000000001', 'r:000000000002'],
    )
  },

  async 'a chunk whose answer was lost can be sent again'(store) {
    await open(store)
    const first = chunk(2, { isEnd: false, cursor: 'a' })
    await store.runs.take('r', first)
    assertFields(await store.runs.take('r', first), { position: 2, duplicates: 0 })
    const last = chunk(2, { position: 2, cursor: 'b' })
    await store.runs.take('r', last)
    assertFields(await store.runs.take('r', last), { position: 4, duplicates: 0, isRead: true })
    assert.equal((await store.count({})).waiting, 4)
  },

  async 'a chunk with one bad item takes none'(store) {
    await open(store)
    const items = [{ payload: '1' }, { payload: '"\ud800"' }]
    await assert.rejects(store.runs.take('r', chunk(0, { items })), OptionError)
    assertFields(await get(store), { position: 0, isRead: false })
    assert.equal((await store.count({})).waiting, 0)
  },

  async 'own ids are found by them, read in the order of the source, and counted once'(store) {
    await open(store, { hasOwnIds: true })
    const items = ['z', 'a', 'z', 'm'].map(id => ({ id, payload: JSON.stringify(id) }))
    await store.runs.take('r', chunk(0, { items, isEnd: false }))
    await store.runs.take('r', chunk(0, { items: [{ id: 'a', payload: '0' }], position: 4 }))
    const run = await get(store)
    assertFields(run, { position: 5, duplicates: 2 })
    assert.deepEqual(run.counts, counts({ waiting: 3 }))
    const first = await store.runs.items('r', { limit: 2 })
    assert.deepEqual(
      first.items.map(({ id }) => id),
      ['r:z', 'r:a'],
    )
    assert.ok(first.next !== undefined)
    const second = await store.runs.items('r', { limit: 2, after: first.next })
    assert.deepEqual(
      second.items.map(({ id, payload }) => [id, payload]),
      [['r:m', '"m"']],
    )
    await assert.rejects(store.runs.items('r', { limit: 2, after: 'x' }), OptionError)
  },

  async 'an item without the id that its run needs, or with that of the last task, is refused'(store) {
    await open(store, { hasOwnIds: true })
    await assert.rejects(store.runs.take('r', chunk(1)), OptionError)
    await assert.rejects(store.runs.take('r', chunk(0, { items: [{ id: 'end:1', payload: '1' }] })), OptionError)
  },

  async 'items are listed by status'(store) {
    await runOf(store, 5)
    await end(store, 'sdsd')
    const { items } = await store.runs.items('r', { limit: 10 }, 'dead')
    assert.deepEqual(
      items.map(({ id }) => id),
      ['r:000000000001', 'r:000000000003'],
    )
  },

  async 'runs are listed newest first, by pipeline and status, page by page'(store, advance) {
    for (const id of ['a', 'b', 'c', 'd']) {
      await open(store, { id, pipeline: id === 'b' ? 'other' : 'enrich' })
      await advance(1)
    }
    await store.runs.change('c', { isPaused: true })
    const ids = async (filter: { pipeline?: string; status?: RunStatus }) =>
      (await store.runs.list(filter, { limit: 10 })).items.map(({ id }) => id)
    assert.deepEqual(await ids({}), ['d', 'c', 'b', 'a'])
    assert.deepEqual(await ids({ pipeline: 'enrich' }), ['d', 'c', 'a'])
    assert.deepEqual(await ids({ status: 'paused' }), ['c'])
    assert.deepEqual(await ids({ status: 'running' }), ['d', 'b', 'a'])
    const seen: string[] = []
    for (let after: string | undefined; ; ) {
      const page = await store.runs.list(
        { status: 'running' },
        after === undefined ? { limit: 1 } : { limit: 1, after },
      )
      seen.push(...page.items.map(({ id }) => id))
      after = page.next
      if (after === undefined) break
    }
    assert.deepEqual(seen, ['d', 'b', 'a'])
  },
}
