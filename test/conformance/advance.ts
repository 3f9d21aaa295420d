import assert from 'node:assert/strict'
import type { NewTask, TaskStatus } from '../../src/store/index.js'
import type {
  AttemptEntry,
  ClaimedTask,
  Outcome,
  Settled,
  Settlement,
  StoreContract,
} from '../../src/store/internal.js'
import {
  add,
  addOne,
  assertFields,
  type ClaimOptions,
  claim,
  claimIds,
  claimOne,
  entry,
  get,
  kill,
  LEASE_MS,
  laneOf,
  type StoreBehaviours,
  settle,
  settleUncounted,
  TIMED_OUT,
} from './harness.js'

/** The lanes of a run: kind `k`, key `r`, one category for each stage. */
const FETCH = { kind: 'k', category: 'fetch', key: 'r' }
const PARSE = { kind: 'k', category: 'parse', key: 'r' }

const TO_PARSE = { type: 'advanced', to: 'parse', value: '{"n":1}', keep: true } as const

export const ADVANCE: StoreBehaviours = {
  async 'an item whose next stage is open is kept, under a new token'(store, advance) {
    const item = await startItem(store)
    await advance(7)
    const kept = await goOn(store, item, TO_PARSE)
    const now = await store.now()
    assert.ok(kept.token !== item.token)
    assert.equal(kept.now, now)
    assertFields(await get(store, item.id), {
      ...PARSE,
      status: 'running',
      payload: '{"n":0}',
      value: '{"n":1}',
      changedAt: now,
      startedAt: now,
      submittedAt: item.submittedAt,
      nextAttemptAt: undefined,
    })
    assert.deepEqual(await claimIds(store, { worker: 'w2' }), [])
    await assertCounts(store, { fetch: {}, parse: { running: 1 } })
  },

  async 'each stage settles under the token of its own, and the last one ends the item'(store) {
    const item = await startItem(store)
    const parsed = await goOn(store, item, TO_PARSE)
    const filtered = await goOn(store, parsed, { ...TO_PARSE, to: 'filter', value: '2' })
    assert.equal(await settle(store, filtered, { type: 'succeeded', result: '3' }), 'settled')
    const expected = {
      category: 'filter',
      status: 'succeeded',
      payload: '{"n":0}',
      value: undefined,
      result: '3',
    } as const
    assertFields(await get(store, item.id), expected)
    const rows = (await store.ledger(item.id)).map(row => [row.category, row.outcome, row.attempt, row.sequence])
    assert.deepEqual(rows, [
      ['fetch', 'advanced', 1, 1],
      ['parse', 'advanced', 1, 2],
      ['filter', 'succeeded', 1, 3],
    ])
    await assertCounts(store, { fetch: {}, parse: {}, filter: { succeeded: 1 } })
  },

  async 'an item that is not to be kept waits at its next stage, and is claimed there with its value'(store, advance) {
    const item = await startItem(store)
    await advance(7)
    assert.deepEqual(await settleFully(store, item, { ...TO_PARSE, keep: false }), { result: 'settled' })
    const now = await store.now()
    const waiting = { ...PARSE, status: 'waiting', nextAttemptAt: now, startedAt: now, value: '{"n":1}' } as const
    assertFields(await get(store, item.id), waiting)
    await assertCounts(store, { fetch: {}, parse: { waiting: 1 } })
    assert.deepEqual(await claimIds(store, { categories: ['fetch'] }), [])
    const claimed = await claimOne(store, { categories: ['parse'] })
    assertFields(claimed, { ...PARSE, id: item.id, payload: '{"n":0}', value: '{"n":1}', attempts: 0 })
    assert.equal(await settle(store, item, { type: 'succeeded' }), 'stale')
    assert.equal(await settle(store, claimed, { type: 'succeeded' }), 'settled')
  },

  async 'rooms by category give each stage its own places'(store) {
    for (const id of ['a', 'b', 'c', 'd']) await addItem(store, { id })
    const { tasks } = await claim(store, { limit: 2 })
    for (const task of tasks) await settleFully(store, task, { ...TO_PARSE, keep: false })
    const rooms = [
      { kinds: ['k'], categories: ['parse'], limit: 1 },
      { kinds: ['k'], categories: ['fetch'], limit: 5 },
    ]
    assert.deepEqual(await claimIds(store, { rooms }), ['a', 'c', 'd'])
  },

  async 'the history of a stage begins afresh, and stays on the ledger'(store, advance) {
    await startItem(store)
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    const retry = { type: 'retry', delayMs: 0, isBackoff: true } as const
    await settle(store, await claimOne(store), retry, { verdict: TIMED_OUT })
    await settle(store, await claimOne(store), { ...retry, delayMs: 5 }, { verdict: TIMED_OUT, error: 'slow' })
    await advance(5)
    await settle(store, await claimOne(store), { type: 'deferred', delayMs: 5 }, { verdict: TIMED_OUT, error: 'slow' })
    await advance(5)
    const item = await claimOne(store)
    assertFields(item, { attempts: 1, deferrals: 1, losses: 1, previousDelayMs: 5, errorCode: 'timeout' })
    const kept = await goOn(store, item, TO_PARSE)
    const afresh = { attempts: 0, deferrals: 0, losses: 0, previousDelayMs: undefined, errorClass: undefined }
    assertFields(await get(store, item.id), { ...afresh, errorCode: undefined, errorMessage: undefined })
    await settle(store, kept, { type: 'retry', delayMs: 0, isBackoff: true }, { attempt: 1, verdict: TIMED_OUT })
    assertFields(await claimOne(store), { attempts: 1, losses: 0, category: 'parse', value: '{"n":1}' })
    const outcomes = (await store.ledger(item.id)).map(({ category, outcome }) => `${category} ${outcome}`)
    const fetched = ['fetch lost', 'fetch retry', 'fetch deferred', 'fetch advanced']
    assert.deepEqual(outcomes, [...fetched, 'parse retry'])
  },

  async 'the ledger has the category, the version and the call of each attempt'(store) {
    const item = await startItem(store)
    const kept = await goOn(store, item, TO_PARSE, { version: 'v1', call: 'c1' })
    await settle(store, kept, { type: 'succeeded' }, { version: 'v2', call: 'c2' })
    const rows = (await store.ledger(item.id)).map(({ category, version, call }) => [category, version, call])
    assert.deepEqual(rows, [
      ['fetch', 'v1', 'c1'],
      ['parse', 'v2', 'c2'],
    ])
    const plain = await addOne(store)
    await settle(store, await claimOne(store), { type: 'succeeded' })
    assertFields((await store.ledger(plain))[0], { category: undefined, version: undefined, call: undefined })
  },

  async 'the ledger has the cost that the attempts of each stage have reported'(store) {
    const item = await startItem(store)
    const kept = await goOn(store, item, TO_PARSE, { notes: { used: { tokens: 1250.5 } } })
    await settle(store, kept, { type: 'succeeded', result: '1' }, { notes: { used: { tokens: 7, pages: 1 } } })
    assertFields(await get(store, item.id), { status: 'succeeded', result: '1' })
    const rows = (await store.ledger(item.id)).map(({ category, outcome, notes }) => [category, outcome, notes?.used])
    assert.deepEqual(rows, [
      ['fetch', 'advanced', { tokens: 1250.5 }],
      ['parse', 'succeeded', { tokens: 7, pages: 1 }],
    ])
  },

  async 'an advance without an attempt leaves no row'(store) {
    const item = await startItem(store)
    const settlement = { id: item.id, token: item.token, outcome: TO_PARSE }
    assert.equal((await store.settle([settlement]))[0]?.result, 'kept')
    assert.deepEqual(await store.ledger(item.id), [])
  },

  async 'an item is not kept at a stage that is paused, and waits there until it is resumed'(store) {
    const item = await startItem(store)
    await store.pause({ kind: 'k', category: 'parse' }, { isPaused: true })
    assert.equal((await settleFully(store, item, TO_PARSE)).result, 'settled')
    assert.deepEqual(await claimIds(store), [])
    await store.pause({ kind: 'k', category: 'parse' }, { isPaused: false })
    assert.deepEqual(await claimIds(store), [item.id])
  },

  async 'an item is not kept at a stage that is held, nor beyond what may run there after the hold'(store, advance) {
    await add(store, { id: 'parse', ...PARSE })
    const parse = await claimOne(store)
    const [a, b, c] = await startItems(store, 'a', 'b', 'c')
    await settle(store, parse, { type: 'deferred', delayMs: 1000 })
    assert.equal((await settleFully(store, a, TO_PARSE)).result, 'settled')
    await advance(1000)
    assert.equal((await claimOne(store, { categories: ['parse'] })).id, 'a')
    assert.equal((await settleFully(store, b, TO_PARSE)).result, 'settled', 'one may run, and one does')
    assert.equal((await laneOf(store, PARSE)).running, 1)
    assert.equal((await settleFully(store, c, { ...TO_PARSE, to: 'other' })).result, 'kept')
  },

  async 'an item is kept while the next stage has room'(store) {
    await store.limit(PARSE, { concurrency: 1 })
    const [a, b, c] = await startItems(store, 'a', 'b', 'c')
    const kept = await goOn(store, a, TO_PARSE)
    assert.equal((await settleFully(store, b, TO_PARSE)).result, 'settled')
    const settled = await store.settle([
      { id: 'a', token: kept.token, outcome: { type: 'succeeded' }, attempt: entry(kept) },
      { id: 'c', token: c.token, outcome: TO_PARSE, attempt: entry(c) },
    ])
    assert.deepEqual(resultsOf(settled), ['settled', 'settled'], 'there is room, but b comes first')
    assert.deepEqual(await claimIds(store), ['b'])
    await assertCounts(store, { fetch: {}, parse: { running: 1, waiting: 1, succeeded: 1 } })
  },

  async 'an end makes room for an item that advances later in the same batch'(store) {
    await store.limit(PARSE, { concurrency: 1 })
    const [a, b] = await startItems(store, 'a', 'b')
    const kept = await goOn(store, a, TO_PARSE)
    const settled = await store.settle([
      { id: 'a', token: kept.token, outcome: { type: 'succeeded' }, attempt: entry(kept) },
      { id: 'b', token: b.token, outcome: TO_PARSE, attempt: entry(b) },
    ])
    assert.deepEqual(resultsOf(settled), ['settled', 'kept'])
    assert.equal((await laneOf(store, PARSE)).running, 1)
  },

  async 'an item that is kept takes from the rate of its next stage'(store, advance) {
    await store.limit(PARSE, { perSecond: 2 })
    const [a, b, c] = await startItems(store, 'a', 'b', 'c')
    const settled = await store.settle(
      [a, b, c].map(item => ({ id: item.id, token: item.token, outcome: TO_PARSE, attempt: entry(item) })),
    )
    assert.deepEqual(resultsOf(settled), ['kept', 'kept', 'settled'])
    assert.deepEqual(await claimIds(store), [])
    await advance(500)
    assert.deepEqual(await claimIds(store), ['c'])
  },

  async 'an item is not kept past a ready task that comes before it'(store) {
    const [a, b, c] = await startItems(store, 'a', 'b', 'c')
    await settleFully(store, b, { ...TO_PARSE, keep: false })
    assert.equal((await settleFully(store, c, TO_PARSE)).result, 'settled')
    assert.equal((await settleFully(store, a, TO_PARSE)).result, 'kept')
    assert.deepEqual(await claimIds(store), ['b', 'c'])
  },

  async 'an item is not kept past a task with a higher priority, or one that has just become due'(store, advance) {
    const [a, b, c, d] = await startItems(store, 'a', 'b', 'c', 'd')
    const later = { id: 'later', ...PARSE, priority: 1, runAt: (await store.now()) + 10 }
    await add(store, later)
    assert.equal((await settleFully(store, a, TO_PARSE)).result, 'kept')
    await advance(10)
    assert.equal((await settleFully(store, b, TO_PARSE)).result, 'settled')
    assert.deepEqual(await claimIds(store), ['later', 'b'])
    await add(store, { ...later, id: 'other run', key: 's' })
    assert.equal((await settleFully(store, c, TO_PARSE)).result, 'kept', 'other lanes take turns')
    await add(store, { ...later, id: 'urgent', runAt: await store.now() })
    assert.equal((await settleFully(store, d, TO_PARSE)).result, 'settled')
  },

  async 'items of one batch are kept in its order'(store) {
    await store.limit(PARSE, { concurrency: 2 })
    const items = await startItems(store, 'a', 'b', 'c', 'd')
    const [a, b, c, d] = items
    const settled = await store.settle(
      [d, a, b, c].map(item => ({ id: item.id, token: item.token, outcome: TO_PARSE, attempt: entry(item) })),
    )
    assert.deepEqual(resultsOf(settled), ['kept', 'kept', 'settled', 'settled'])
    await assertCounts(store, { fetch: {}, parse: { running: 2, waiting: 2 } })
  },

  async 'an ordered stage takes one item at a time'(store) {
    await store.limit({ kind: 'k', category: 'parse' }, { isOrdered: true })
    const [a, b, c] = await startItems(store, 'a', 'b', 'c')
    const kept = await goOn(store, a, TO_PARSE)
    assert.equal((await settleFully(store, c, TO_PARSE)).result, 'settled')
    assert.equal((await settleFully(store, b, TO_PARSE)).result, 'settled')
    await settle(store, kept, { type: 'succeeded' })
    assert.deepEqual(await claimIds(store), ['b'])
  },

  async 'a stale token advances nothing'(store, advance) {
    const item = await startItem(store)
    await advance(LEASE_MS)
    await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })
    const before = await get(store, item.id)
    assert.equal((await settleFully(store, item, TO_PARSE)).result, 'stale')
    assert.deepEqual(await get(store, item.id), before)
    assert.equal((await store.ledger(item.id)).length, 1)
    const again = await claimOne(store)
    const kept = await goOn(store, again, TO_PARSE)
    assert.equal((await settleFully(store, again, { ...TO_PARSE, to: 'filter' })).result, 'stale')
    assert.equal(await settle(store, again, { type: 'succeeded' }), 'stale')
    assert.equal(await settle(store, kept, { type: 'succeeded' }), 'settled')
    await assertCounts(store, { fetch: {}, parse: { succeeded: 1 } })
  },

  async 'an advance that is repeated is answered the same, and made once'(store, advance) {
    const [a, b] = await startItems(store, 'a', 'b')
    const first = await settleFully(store, a, TO_PARSE)
    const waits = await settleFully(store, b, { ...TO_PARSE, keep: false })
    await advance(10)
    assert.deepEqual(await settleFully(store, a, TO_PARSE), first)
    assert.deepEqual(await settleFully(store, b, { ...TO_PARSE, keep: false }), waits)
    assert.deepEqual([(await store.ledger('a')).length, (await store.ledger('b')).length], [1, 1])
    await assertCounts(store, { fetch: {}, parse: { running: 1, waiting: 1 } })
    assert.deepEqual(await claimIds(store), ['b'])
    assert.equal((await settleFully(store, b, { ...TO_PARSE, keep: false })).result, 'stale', 'claimed since')
    assert.ok(first.result === 'kept')
    await settle(store, { ...a, token: first.token }, { type: 'succeeded' })
    assert.equal((await settleFully(store, a, TO_PARSE)).result, 'stale', 'settled since')
  },

  async 'an advance is stale once its item was claimed again and handed back, however often'(store) {
    const item = await startItem(store)
    assert.equal((await settleFully(store, item, TO_PARSE)).result, 'kept')
    await store.leave('w1')
    for (let handedBack = 1; handedBack <= 3; handedBack++) {
      assert.deepEqual(await claimIds(store), [item.id])
      await store.leave('w1')
      assert.equal((await settleFully(store, item, TO_PARSE)).result, 'stale', `${handedBack} times`)
    }
  },

  async 'an advance is stale once its item was claimed again and cancelled'(store) {
    const item = await startItem(store)
    assert.equal((await settleFully(store, item, TO_PARSE)).result, 'kept')
    await store.leave('w1')
    assert.deepEqual(await claimIds(store), [item.id])
    await store.leave('w1')
    await store.cancel([item.id])
    assert.equal((await settleFully(store, item, TO_PARSE)).result, 'stale')
  },

  async 'an advance is stale once its task was ended by hand, or its time to live is over, but not once it was cancelled'(
    store,
  ) {
    await add(store, ...['expired', 'completed', 'failed', 'redriven'].map(id => ({ id, ...FETCH, key: '' })))
    const { tasks } = await claim(store)
    const answersOf = () => Promise.all(tasks.map(task => settleFully(store, task, { ...TO_PARSE, keep: false })))
    const resultsOf = async () => (await answersOf()).map(({ result }) => result)
    const waiting = tasks.map(() => 'settled')
    assert.deepEqual(await resultsOf(), waiting)
    const expire = async (id: string) => {
      const { changedAt } = await get(store, id)
      assert.deepEqual(await store.lifetimes.expire([{ id, changedAt }]), [id])
    }
    await store.cancel(['completed', 'failed'])
    assert.deepEqual(await resultsOf(), waiting)
    const by = { who: 'ann', why: 'by hand' }
    assert.deepEqual(await store.complete(['completed'], '1', by), ['completed'])
    assert.deepEqual(await store.fail([{ id: 'failed' }], by), ['failed'])
    await expire('expired')
    await expire('redriven')
    assert.deepEqual(await store.redrive(['redriven'], by), ['redriven'])
    assert.deepEqual(
      await resultsOf(),
      tasks.map(() => 'stale'),
    )
  },

  async 'an advance that stands in a batch twice is made once'(store) {
    const item = await startItem(store)
    const settlement: Settlement = { id: item.id, token: item.token, outcome: TO_PARSE, attempt: entry(item) }
    const [first, second] = await store.settle([settlement, settlement])
    assert.equal(first?.result, 'kept')
    assert.deepEqual(second, first)
    assert.equal((await store.ledger(item.id)).length, 1)
  },

  async 'an item that is to be cancelled ends where it would go on'(store) {
    const item = await startItem(store)
    await store.cancel([item.id])
    assert.deepEqual(await settleFully(store, item, TO_PARSE, { notes: { used: { tokens: 7 } } }), {
      result: 'settled',
    })
    assertFields(await get(store, item.id), { ...FETCH, status: 'cancelled', value: undefined })
    assert.deepEqual(await outcomesOf(store, item.id), ['fetch cancelled'])
    assert.deepEqual((await store.ledger(item.id)).at(-1)?.notes, { used: { tokens: 7 } })
    await assertCounts(store, { fetch: { cancelled: 1 } })
  },

  async 'an item that was kept can be cancelled, by its new token'(store) {
    const kept = await goOn(store, await startItem(store), TO_PARSE)
    assert.deepEqual(await store.cancel([kept.id]), [kept.id])
    assert.deepEqual(await store.cancelled('w1'), [kept.token])
    assert.deepEqual((await store.heartbeat({ worker: 'w1', leaseMs: LEASE_MS })).cancelled, [kept.token])
    assert.equal(await settle(store, kept, { type: 'cancelled' }), 'settled')
    assertFields(await get(store, kept.id), { ...PARSE, status: 'cancelled', value: '{"n":1}' })
    await assertCounts(store, { fetch: {}, parse: { cancelled: 1 } })
  },

  async 'an item that is lost after it was kept goes back to its stage, from the moment when it was kept'(
    store,
    advance,
  ) {
    const item = await startItem(store)
    await advance(100)
    const kept = await goOn(store, item, TO_PARSE)
    await advance(LEASE_MS)
    assert.equal((await store.heartbeat({ worker: 'w2', leaseMs: LEASE_MS })).rescued, 1)
    assertFields(await get(store, item.id), { ...PARSE, status: 'waiting', losses: 1, value: '{"n":1}' })
    const [, lost] = await store.ledger(item.id)
    assertFields(lost, { outcome: 'lost', category: 'parse', startedAt: kept.now, attempt: 1, worker: 'w1' })
    assert.equal(await settle(store, kept, { type: 'succeeded' }), 'stale')
    assert.equal((await settleFully(store, item, TO_PARSE)).result, 'stale')
    assertFields(await claimOne(store), { isUndecided: true, value: '{"n":1}', category: 'parse' })
  },

  async 'a worker that leaves hands back what it kept, at its stage'(store) {
    const kept = await goOn(store, await startItem(store), TO_PARSE)
    await store.leave('w1')
    assertFields(await get(store, kept.id), { ...PARSE, status: 'waiting', losses: 0, value: '{"n":1}' })
    await assertCounts(store, { fetch: {}, parse: { waiting: 1 } })
  },

  async 'an item that died is redriven at its stage, with the value that it had there'(store) {
    const kept = await goOn(store, await startItem(store), TO_PARSE)
    await kill(store, kept)
    assertFields(await get(store, kept.id), { ...PARSE, status: 'dead', value: '{"n":1}', payload: '{"n":0}' })
    await assertCounts(store, { fetch: {}, parse: { dead: 1 } })
    assert.deepEqual(await store.redrive([kept.id], { who: 'ann' }), [kept.id])
    assertFields(await claimOne(store), { ...PARSE, value: '{"n":1}', attempts: 0 })
    assert.deepEqual(await outcomesOf(store, kept.id), ['fetch advanced', 'parse dead', 'parse redriven'])
  },

  async 'a skip forgets the value, a retry and a release keep it'(store) {
    const kept = await goOn(store, await startItem(store), TO_PARSE)
    await settle(store, kept, { type: 'retry', delayMs: 0, isBackoff: false })
    const again = await claimOne(store)
    assert.equal(again.value, '{"n":1}')
    await settleUncounted(store, again, { type: 'released' })
    const last = await claimOne(store)
    assert.equal(last.value, '{"n":1}')
    await settle(store, last, { type: 'skipped', reason: 'empty' })
    assertFields(await get(store, kept.id), { status: 'skipped', value: undefined })
  },

  async 'an attempt made elsewhere can advance its item, which waits'(store) {
    const attempt = { attempt: 1, startedAt: 1, endedAt: 2, worker: 'elsewhere' }
    const id = await addItem(store, { tried: { outcome: TO_PARSE, attempt } })
    assertFields(await get(store, id), { ...PARSE, status: 'waiting', value: '{"n":1}' })
    assert.deepEqual(await outcomesOf(store, id), ['fetch advanced'])
    await assertCounts(store, { fetch: {}, parse: { waiting: 1 } })
  },

  async 'watchers are called when an item waits at its next stage'(store, advance) {
    const item = await startItem(store)
    let calls = 0
    const stop = store.watch(() => calls++)
    await settleFully(store, item, { ...TO_PARSE, keep: false })
    for (let i = 0; i < 100 && calls === 0; i++) await advance(1)
    stop()
    assert.ok(calls > 0)
  },
}

/** Enqueues an item at its first stage. */
function addItem(store: StoreContract, item: Partial<NewTask> = {}): Promise<string> {
  return addOne(store, { ...FETCH, payload: '{"n":0}', ...item })
}

/** Enqueues an item at its first stage, and claims it. */
async function startItem(store: StoreContract, request: ClaimOptions = {}): Promise<ClaimedTask> {
  await addItem(store)
  return claimOne(store, request)
}

type FourTasks = readonly [ClaimedTask, ClaimedTask, ClaimedTask, ClaimedTask]

/** Enqueues up to four items at their first stage, in this order, and claims them. */
async function startItems(store: StoreContract, ...ids: string[]): Promise<FourTasks> {
  for (const id of ids) await addItem(store, { id, submittedAt: (await store.now()) - 100 })
  const { tasks } = await claim(store, { categories: ['fetch'] })
  const [a] = tasks
  assert.ok(a !== undefined && tasks.length === ids.length, `${tasks.length} items were claimed`)
  const [, b = a, c = a, d = a] = tasks
  return [a, b, c, d]
}

async function settleFully(
  store: StoreContract,
  task: ClaimedTask,
  outcome: Outcome,
  more: Partial<Pick<AttemptEntry, 'version' | 'call' | 'notes'>> = {},
): Promise<Settled> {
  const [settled] = await store.settle([{ id: task.id, token: task.token, outcome, attempt: entry(task, more) }])
  assert.ok(settled !== undefined, 'every settlement is answered')
  return settled
}

/** Advances an item that must be kept. Returns it with its new token. */
async function goOn(
  store: StoreContract,
  task: ClaimedTask,
  outcome: Outcome,
  more: Partial<Pick<AttemptEntry, 'version' | 'call' | 'notes'>> = {},
): Promise<ClaimedTask & { readonly now: number }> {
  const settled = await settleFully(store, task, outcome, more)
  assert.ok(settled.result === 'kept', `an item should be kept, but was ${settled.result}`)
  const { token, now } = settled
  return { ...task, attempts: 0, changedAt: now, token, now }
}

async function outcomesOf(store: StoreContract, id: string): Promise<string[]> {
  return (await store.ledger(id)).map(({ category, outcome }) => `${category} ${outcome}`)
}

function resultsOf(settled: readonly Settled[]): string[] {
  return settled.map(({ result }) => result)
}

/** Asserts the counts of the run's stages. Statuses that are not named have none. */
async function assertCounts(
  store: StoreContract,
  stages: Readonly<Record<string, Partial<Record<TaskStatus, number>>>>,
): Promise<void> {
  for (const [category, expected] of Object.entries(stages)) {
    const counts = Object.entries(await store.count({ kind: 'k', category, key: 'r' }))
    const counted = Object.fromEntries(counts.filter(([, count]) => count > 0))
    assert.deepEqual(counted, expected, `the counts of ${category}`)
  }
}
