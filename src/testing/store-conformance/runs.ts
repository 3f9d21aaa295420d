import assert from 'node:assert/strict'
import { OptionError } from '../../policy/index.js'
import type {
  Chunk,
  ClaimedTask,
  NewRun,
  Outcome,
  RunRecord,
  RunSettings,
  RunStatus,
  Store,
  TaskStatus,
} from '../../store/index.js'
import { add, assertFields, claim, LEASE_MS, type StoreBehaviours, settle, start } from './harness.js'

const ANN = { who: 'ann', why: 'the API is back' }

const SETTINGS: RunSettings = {
  failureBudget: 1,
  stageBudgets: {},
  checkInterval: 10,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 10_000,
  concurrency: {},
}

const KIND = 'pipeline:enrich'

/** Opens a run of two stages, `fetch` and `call`. */
function open(store: Store, run: Partial<Omit<NewRun, 'settings'>> & { settings?: Partial<RunSettings> } = {}) {
  const settings = { ...SETTINGS, ...run.settings }
  return store.runs.open({ id: 'r', pipeline: 'enrich', version: 'v1', stages: ['fetch', 'call'], ...run, settings })
}

/** A chunk of this many items, with payloads 0, 1, 2 … */
function chunk(count: number, more: Partial<Chunk> = {}): Chunk {
  const items = Array.from({ length: count }, (_, index) => ({ payload: String(index) }))
  return { reader: 'reader', leaseMs: LEASE_MS, position: 0, items, isEnd: true, ...more }
}

/** A run whose source was read to its end. */
async function runOf(store: Store, count: number, run: Parameters<typeof open>[1] = {}): Promise<RunRecord> {
  const { id } = await open(store, run)
  return store.runs.take(id, chunk(count))
}

/** Claims items, in the order of the source. */
async function take(store: Store, limit: number, kind = KIND): Promise<readonly ClaimedTask[]> {
  const { tasks } = await claim(store, { kinds: [kind], limit })
  assert.equal(tasks.length, limit, `${limit} items should be there to claim`)
  return tasks
}

const DEAD: Outcome = { type: 'dead', reason: 'attempts_exhausted' }

function kill(store: Store, item: ClaimedTask, code = 'http_422') {
  return settle(store, item, DEAD, { verdict: { class: 'final', code }, error: 'Error: bad' })
}

const succeed = (store: Store, item: ClaimedTask) => settle(store, item, { type: 'succeeded', result: '"ok"' })

/** Lets the next items end: each letter is one of them, `s` succeeded, `k` skipped, `d` dead. */
async function end(store: Store, letters: string): Promise<void> {
  for (const [index, item] of (await take(store, letters.length)).entries()) {
    if (letters[index] === 's') await succeed(store, item)
    else if (letters[index] === 'd') await kill(store, item)
    else await settle(store, item, { type: 'skipped', reason: 'filtered' })
  }
}

const counts = (some: Partial<Record<TaskStatus, number>>) => ({
  waiting: 0,
  running: 0,
  succeeded: 0,
  skipped: 0,
  dead: 0,
  cancelled: 0,
  ...some,
})

async function get(store: Store, id = 'r'): Promise<RunRecord> {
  const run = await store.runs.get(id)
  assert.ok(run !== undefined, `the run ${id} should be there`)
  return run
}

async function audit(store: Store): Promise<Record<string, unknown>[]> {
  return (await store.audit.page({ limit: 100 })).items.map(item => JSON.parse(item))
}

/** The statuses that a run has had, as its `onEnd` tasks tell. */
async function endings(store: Store): Promise<unknown[]> {
  const { items } = await store.list({ kind: 'report' }, { limit: 100 })
  return items.map(({ id, payload }) => [id, JSON.parse(payload)]).sort()
}

const LIFE: StoreBehaviours = {
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

const READERS: StoreBehaviours = {
  async 'items have the traceparent of the chunk that they came with'(store) {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    await open(store)
    await store.runs.take('r', chunk(1, { traceparent, isEnd: false }))
    await store.runs.take('r', chunk(1, { position: 1 }))
    assert.deepEqual(
      (await store.runs.items('r', { limit: 10 })).items.map(item => item.traceparent),
      [traceparent, undefined],
    )
  },

  async 'one process reads: another one is refused until the lease has expired, and then takes over'(store, advance) {
    await open(store, { reader: { name: 'one', leaseMs: 1000 } })
    assertFields(await get(store), { status: 'running', reader: { name: 'one', until: (await store.now()) + 1000 } })
    await assert.rejects(store.runs.read('r', 'two', 1000), { name: 'RunBusyError' })
    await assert.rejects(store.runs.take('r', chunk(1, { reader: 'two' })), { name: 'RunBusyError' })
    await advance(999)
    assertFields(await store.runs.read('r', 'one', 1000), { status: 'running' })
    await advance(1000)
    assertFields(await get(store), { status: 'interrupted' })
    assertFields(await store.runs.read('r', 'two', 1000), { status: 'running' })
    await assert.rejects(store.runs.take('r', chunk(1, { reader: 'one' })), { name: 'RunBusyError' })
    assert.equal((await store.count({})).waiting, 0)
  },

  async 'a chunk from the wrong position is refused: another process has read on'(store, advance) {
    await open(store)
    await store.runs.take('r', chunk(3, { isEnd: false, leaseMs: 10 }))
    await advance(10)
    await assert.rejects(store.runs.take('r', chunk(2, { reader: 'two' })), { name: 'RunBusyError' })
    assertFields(await get(store), { position: 3 })
    assert.equal((await store.count({})).waiting, 3)
  },

  async 'a source that throws interrupts the run, says why, and can be read on'(store) {
    await open(store)
    await store.runs.take('r', chunk(2, { isEnd: false }))
    await store.runs.change('r', { sourceError: 'Error: no such bucket', reader: 'reader' })
    assertFields(await get(store), { status: 'interrupted', sourceError: 'Error: no such bucket', reader: undefined })
    await end(store, 'ss')
    assertFields(await store.runs.check('r'), { status: 'interrupted', position: 2 })
    const read = await store.runs.read('r', 'two', 1000)
    assertFields(read, { status: 'running', sourceError: undefined, position: 2 })
    await store.runs.take('r', chunk(0, { reader: 'two', position: 2 }))
    assertFields(await store.runs.check('r'), { status: 'completed' })
  },

  async 'a reader that lost its lease cannot interrupt the one after it'(store, advance) {
    await open(store, { reader: { name: 'one', leaseMs: 10 } })
    await advance(10)
    await store.runs.read('r', 'two', 1000)
    await store.runs.change('r', { sourceError: 'Error: late', reader: 'one' })
    assertFields(await get(store), { status: 'running', sourceError: undefined })
  },

  async 'a source that was read to its end cannot be read again'(store) {
    await runOf(store, 1)
    await assert.rejects(store.runs.read('r', 'two', 1000), { name: 'RunEndedError' })
    await assert.rejects(store.runs.take('r', chunk(1, { position: 1, reader: 'two' })), { name: 'RunEndedError' })
  },
}

const ENDINGS: StoreBehaviours = {
  async 'a run ends when its source has and no item is left, and only then'(store, advance) {
    await open(store)
    await store.runs.take('r', chunk(2, { isEnd: false }))
    await end(store, 'ss')
    assertFields(await store.runs.check('r'), { status: 'running', endedAt: undefined })
    await store.runs.take('r', chunk(1, { position: 2 }))
    assertFields(await store.runs.check('r'), { status: 'running' })
    const [last] = await take(store, 1)
    assertFields(await store.runs.check('r'), { status: 'running' })
    await advance(5)
    if (last !== undefined) await succeed(store, last)
    assertFields(await get(store), { status: 'running' })
    assertFields(await store.runs.check('r'), { status: 'completed', endings: 1, endedAt: await store.now() })
    await advance(5)
    assertFields(await store.runs.check('r'), { endings: 1, endedAt: (await store.now()) - 5 })
  },

  async 'the share of items that did not die decides how it ended'(store) {
    for (const [id, letters, status] of [
      ['a', 'sssssssssssssssssskd', 'completed'],
      ['b', 'ssssssssssssssssssdd', 'partial_success'],
      ['c', 'skddd', 'failed'],
      ['d', 'skdd', 'partial_success'],
      ['e', '', 'completed'],
    ] as const) {
      await runOf(store, letters.length, { id })
      if (letters !== '') await end(store, letters)
      assertFields(await store.runs.check(id), { id, status })
    }
  },

  async 'the last task of a run is enqueued once, with the end, and tells about it'(store) {
    await runOf(store, 2, { onEnd: { kind: 'report', category: 'c', key: 'k', payload: '{"to":"ann"}' } })
    await end(store, 'ss')
    assert.deepEqual(await endings(store), [])
    await Promise.all([store.runs.check('r'), store.runs.check('r'), store.runs.check('r')])
    const about = { run: 'r', status: 'completed', counts: counts({ succeeded: 2 }), payload: { to: 'ann' } }
    assert.deepEqual(await endings(store), [['r:end:1', about]])
    const { tasks } = await claim(store, { kinds: ['report'] })
    assertFields(tasks[0], { id: 'r:end:1', category: 'c', key: 'k' })
    assert.equal((await store.runs.items('r', { limit: 10 })).items.length, 2)
  },

  async 'items go from stage to stage, and are counted where they are'(store) {
    await runOf(store, 2)
    const [one, two] = await take(store, 2)
    assert.ok(one !== undefined && two !== undefined)
    await settle(store, one, { type: 'advanced', to: 'call', value: '{"v":1}', keep: false })
    await kill(store, two)
    const { byStage } = await get(store)
    assert.deepEqual(byStage, [
      { stage: 'fetch', counts: counts({ dead: 1 }) },
      { stage: 'call', counts: counts({ waiting: 1 }) },
    ])
    const [item] = await take(store, 1)
    assertFields(item, { category: 'call', value: '{"v":1}', payload: '0' })
    if (item !== undefined) await settle(store, item, { type: 'advanced', to: 'new', value: '2', keep: false })
    assert.deepEqual((await get(store)).byStage[2], { stage: 'new', counts: counts({ waiting: 1 }) })
  },
}

const BUDGETS: StoreBehaviours = {
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

const CHANGES: StoreBehaviours = {
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

const CANCELS: StoreBehaviours = {
  async 'a run is cancelled in chunks: what waits ends, what runs is asked to'(store) {
    await runOf(store, 7, { onEnd: { kind: 'report', payload: 'null' } })
    const [running, retrying] = await take(store, 2)
    assert.ok(running !== undefined && retrying !== undefined)
    await settle(store, retrying, { type: 'retry', delayMs: 60_000, isBackoff: true })
    assert.deepEqual(await store.runs.cancel('r', 4, ANN), { cancelled: 4, left: 2 })
    assertFields(await get(store), { status: 'cancelled', endedAt: undefined })
    assert.deepEqual((await claim(store, { kinds: [KIND] })).tasks, [])
    await assert.rejects(store.runs.take('r', chunk(1, { position: 7 })), { name: 'RunEndedError' })
    assert.deepEqual(await store.runs.cancel('r', 4, ANN), { cancelled: 2, left: 0 })
    assert.deepEqual(await store.runs.cancel('r', 4, ANN), { cancelled: 0, left: 0 })
    assert.deepEqual(await store.cancelled('w1'), [running.token])
    assertFields(await store.runs.check('r'), { status: 'cancelled', endedAt: undefined })
    await settle(store, running, { type: 'advanced', to: 'call', value: '1', keep: true })
    const run = await store.runs.check('r')
    assertFields(run, { status: 'cancelled', endedAt: await store.now(), counts: counts({ cancelled: 7 }) })
    assert.equal((await endings(store)).length, 1)
    assert.deepEqual(
      (await audit(store)).map(({ event_type, who }) => [event_type, who]),
      [['run_cancelled', 'ann']],
    )
  },

  async 'a run without running items ends as it is cancelled: nobody may be left to check it'(store) {
    await runOf(store, 3, { onEnd: { kind: 'report', payload: 'null' } })
    assert.deepEqual(await store.runs.cancel('r', 2, ANN), { cancelled: 2, left: 1 })
    assertFields(await get(store), { status: 'cancelled', endedAt: undefined })
    assert.deepEqual(await store.runs.cancel('r', 2, ANN), { cancelled: 1, left: 0 })
    assertFields(await get(store), { status: 'cancelled', endedAt: await store.now(), endings: 1 })
    assert.deepEqual(await store.runs.cancel('r', 2, ANN), { cancelled: 0, left: 0 })
    assertFields(await store.runs.check('r'), { endings: 1 })
    assert.deepEqual(
      (await endings(store)).map(ending => (ending as unknown[])[0]),
      ['r:end:1'],
    )
  },

  async 'a run ends as its last waiting item is cancelled by its id'(store) {
    await runOf(store, 3, { onEnd: { kind: 'report', payload: 'null' } })
    await end(store, 's')
    const [first, last] = (await store.runs.items('r', { limit: 10 }, 'waiting')).items.map(({ id }) => id)
    assert.ok(first !== undefined && last !== undefined)
    assert.deepEqual(await store.cancel([first]), [first])
    assertFields(await get(store), { status: 'running', endedAt: undefined })
    assert.deepEqual(await store.cancel([last, 'r:end:9'], ANN), [last])
    const ended = { status: 'completed' as const, counts: counts({ succeeded: 1, cancelled: 2 }) }
    assertFields(await get(store), { ...ended, endedAt: await store.now() })
    assert.deepEqual(await endings(store), [['r:end:1', { run: 'r', ...ended, payload: null }]])
    assert.deepEqual(
      (await audit(store)).map(({ event_type, who }) => [event_type, who]),
      [['tasks_cancelled', 'ann']],
    )
  },

  async 'a cancelled item does not end a run that has others, or whose source has more'(store) {
    await runOf(store, 2)
    await take(store, 1)
    const [waiting] = (await store.runs.items('r', { limit: 10 }, 'waiting')).items
    assert.deepEqual(await store.cancel([waiting?.id ?? '']), [waiting?.id])
    assertFields(await get(store), { status: 'running', endedAt: undefined })
    await open(store, { id: 's' })
    await store.runs.take('s', chunk(1, { isEnd: false }))
    const [only] = (await store.runs.items('s', { limit: 10 })).items
    assert.deepEqual(await store.cancel([only?.id ?? '']), [only?.id])
    assertFields(await get(store, 's'), { status: 'running', endedAt: undefined })
  },

  async 'a run whose source was not read to its end can be cancelled'(store) {
    await open(store)
    await store.runs.take('r', chunk(1, { isEnd: false }))
    await store.runs.cancel('r', 10, ANN)
    assertFields(await store.runs.check('r'), { status: 'cancelled', endings: 1 })
    await assert.rejects(store.runs.read('r', 'reader', 10), { name: 'RunEndedError' })
  },

  async 'a run that has ended by itself cannot be cancelled'(store) {
    await runOf(store, 0)
    await store.runs.check('r')
    await assert.rejects(store.runs.cancel('r', 1, ANN), { name: 'RunEndedError' })
  },
}

const REPROCESS: StoreBehaviours = {
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

const OUTPUTS: StoreBehaviours = {
  async 'succeeded items are listed until they have been written out'(store) {
    await runOf(store, 5, { hasOutput: true })
    await runOf(store, 1, { id: 'other' })
    await settle(store, await start(store), { type: 'succeeded', result: '1' })
    const [a, b, c, d] = await take(store, 6).then(items => items.filter(({ key }) => key === 'r'))
    assert.ok(a !== undefined && b !== undefined && c !== undefined && d !== undefined)
    await succeed(store, a)
    // With a verdict it takes another path to the same end.
    await settle(store, b, { type: 'succeeded', result: '2' }, { policy: 'p', random: 0.5 })
    await kill(store, c)
    await settle(store, d, { type: 'skipped', reason: 'filtered' })
    assert.deepEqual(
      [...(await store.runs.outputs('r', 10))].sort((x, y) => (x.id < y.id ? -1 : 1)),
      [
        { id: a.id, result: '"ok"' },
        { id: b.id, result: '2' },
      ],
    )
    assert.equal((await store.runs.outputs('r', 1)).length, 1)
    await store.runs.written('r', [a.id], 5)
    assertFields(await get(store), { outputBytes: 5 })
    assert.deepEqual(await store.runs.outputs('r', 10), [{ id: b.id, result: '2' }])
    await store.runs.written('r', [b.id, 'unknown'], 7)
    assert.deepEqual(await store.runs.outputs('r', 10), [])
    assert.deepEqual(await store.runs.outputs('other', 10), [])
    assertFields(await get(store), { outputBytes: 7 })
  },
}

const RETENTION: StoreBehaviours = {
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

export const RUNS: StoreBehaviours = {
  ...LIFE,
  ...READERS,
  ...ENDINGS,
  ...BUDGETS,
  ...CHANGES,
  ...CANCELS,
  ...REPROCESS,
  ...OUTPUTS,
  ...RETENTION,
}
