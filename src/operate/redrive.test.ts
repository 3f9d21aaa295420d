import { describe, expect, it } from 'vitest'
import { deadLetters as letLettersDie } from '../../test/dead-letters.js'
import { OptionError } from '../policy/index.js'
import { type NewTask, StoreFullError } from '../store/index.js'
import { MemoryStore, type OperationRecord } from '../store/internal.js'
import { TaskQueue } from '../task/index.js'
import { fakeClock } from '../testing/index.js'
import {
  type LetterSelection,
  OperationInterruptedError,
  planOperation,
  planRedrive,
  redriveDeadLetters,
  startOperation,
} from './index.js'
import type { StartOptions } from './internal.js'

/** A store with so many dead letters, `t0` to `tN`, on a clock that the test moves. */
async function deadLetters(count: number, task: Partial<NewTask> = {}) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const ids = Array.from({ length: count }, (_, index) => `t${index}`)
  await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}', ...task })))
  const { tasks } = await store.claim({
    worker: 'w',
    leaseMs: 1,
    rooms: [{ kinds: ['k'] }],
    limit: count,
    isIdle: false,
  })
  const dead = { type: 'dead', reason: 'final_error' } as const
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome: dead })))
  await store.leave('w')
  const audit = async () => (await store.audit.page({ limit: 100 })).items.map(record => JSON.parse(record))
  return { clock, store, ids, audit }
}

const by = { who: 'ada', why: 'it is back' }

describe('a redrive', () => {
  it('moves letters at once while only a notifier is alive, which is no worker', async () => {
    const { store } = await deadLetters(150)
    await store.heartbeat({ worker: 'notifier', leaseMs: 60_000, kinds: ['notify:slack'] })
    expect(await planOperation(store, 'redrive', { all: true })).toMatchObject({ count: 150, refused: [], workers: 0 })
    const { moved, operation } = await redriveDeadLetters(store, { all: true }, by)
    expect([moved, operation?.progress.refused]).toEqual([150, {}])
    await store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['other'] })
    const letters = [
      { id: 'message', kind: 'notify:slack' },
      { id: 'order', kind: 'k' },
    ]
    await letLettersDie(store, letters)
    const second = await redriveDeadLetters(store, { all: true }, by)
    expect([second.moved, second.operation?.progress.refused]).toEqual([1, { no_worker: 1 }])
    expect((await store.get('message'))?.status).toBe('waiting')
  })

  it('of a store that fails says that its operation goes on, and finds it when it is called again', async () => {
    const { store } = await deadLetters(3)
    const { operations } = store
    const { step } = operations
    const act = () =>
      redriveDeadLetters(store, { filter: { kind: 'k' } }, { ...by, perSecond: undefined, patch: { a: 1 } })
    operations.step = () => Promise.reject(new StoreFullError("'x.db'"))
    const failures = [await act().catch(error => error), await act().catch(error => error)]
    operations.step = step
    const [{ id }] = (await operations.list({}, { limit: 10 })).items as [OperationRecord]
    for (const failure of failures) {
      expect(failure).toBeInstanceOf(OperationInterruptedError)
      expect(failure).toMatchObject({ operation: id, code: 'store_full', cause: { code: 'store_full' } })
    }
    expect(await act()).toMatchObject({ moved: 3, operation: { id } })
    expect((await operations.list({}, { limit: 10 })).items).toHaveLength(1)
  })

  it('is another operation if anything about it differs, or the first is over', async () => {
    const { store } = await deadLetters(3)
    const start = (options: Partial<StartOptions>, selection: LetterSelection = { all: true }) =>
      startOperation(store, 'redrive', selection, { ...by, ...options })
    const started = [
      await start({}),
      await start({ who: 'bob' }),
      await start({ why: 'again' }),
      await start({ limit: 2 }),
      await start({ patch: { a: 1 } }),
      await start({ patch: { a: 2 } }),
      await start({}, { filter: { kind: 'k' } }),
      await start({}, { ids: ['t0'] }),
    ]
    expect(new Set(started.map(({ id }) => id)).size).toBe(started.length)
    expect((await start({ patch: '{ "a": 1 }' })).id).toBe(started[4]?.id)
    await store.operations.change(started[0]?.id ?? '', 'stop', by)
    expect(started.map(({ id }) => id)).not.toContain((await start({})).id)
  })

  it('plans for letters of a category that no worker runs as it then treats them', async () => {
    const { store } = await deadLetters(0)
    await letLettersDie(store, [
      { id: 'a', category: 'eu' },
      { id: 'b', category: 'us' },
    ])
    await store.heartbeat({ worker: 'w', leaseMs: 60_000, kinds: ['k'], categories: ['eu'] })
    const { refused } = await planOperation(store, 'redrive', { all: true })
    expect(refused).toEqual([{ reason: 'no_worker', count: 1 }])
    const { operation } = await redriveDeadLetters(store, { all: true }, by)
    expect(operation).toMatchObject({ moved: 1, progress: { refused: { no_worker: 1 } } })
  })

  it('of named letters is stopped only if the signal came before the last of them', async () => {
    const { store } = await deadLetters(3)
    const late = new AbortController()
    const onProgress = () => late.abort()
    const ids = ['t0', 'nobody']
    expect(await redriveDeadLetters(store, { ids }, { ...by, signal: late.signal, onProgress })).toMatchObject({
      moved: 1,
      isStopped: false,
    })
    const { signal } = late
    expect(await redriveDeadLetters(store, { ids: ['t1'] }, { ...by, signal })).toMatchObject({
      moved: 0,
      isStopped: true,
    })
  })

  it.each([{ ids: ['t0'] }, { filter: { kind: 'k' } }])(
    'refuses an option that it does not have, of %j',
    async selection => {
      const { store } = await deadLetters(1)
      const options = { ...by, canry: 5 }
      await expect(redriveDeadLetters(store, selection, options)).rejects.toThrow(
        "redriveDeadLetters() takes no 'canry'. Did you mean 'canary'?",
      )
      expect(await store.count({})).toMatchObject({ dead: 1 })
    },
  )

  it('is on record: who, when, why, which filter, how many', async () => {
    const { clock, store, audit } = await deadLetters(3, { key: 'acme' })
    await clock.advance('1h')
    const { moved, isStopped, operation } = await redriveDeadLetters(store, { filter: { kind: 'k', key: 'acme' } }, by)
    expect([moved, isStopped]).toEqual([3, false])
    const filter = { kind: 'k', key: 'acme' }
    const set = { filter, until: clock.now() }
    expect(operation).toMatchObject({ act: 'redrive', set, by, moved: 3, status: 'settling' })
    expect(await store.operations.get(operation?.id ?? '')).toEqual(operation)
    const [created, ...rest] = await audit()
    expect(rest).toEqual([])
    const timestamp = '2000-01-01T01:00:00.000Z'
    const recorded = { filter, until: timestamp }
    expect(created).toMatchObject({ event_type: 'operation_created', ...by, operation: operation?.id, timestamp })
    expect(created.set).toEqual(recorded)
  })

  it('is on record when all were meant, and when it was called on the queue; not when nothing matches', async () => {
    const { store, audit } = await deadLetters(2)
    const none = await redriveDeadLetters(store, { filter: { kind: 'other' } }, by)
    expect(none).toEqual({ moved: 0, ids: [], isStopped: false, operation: undefined })
    await redriveDeadLetters(store, { all: true }, { who: 'ada' })
    const created = (await audit()).filter(({ event_type }) => event_type === 'operation_created')
    expect(created.map(({ set, why }) => [set.filter, why])).toEqual([[{}, null]])
    const { items } = await store.operations.list({}, { limit: 10 })
    expect(items.map(({ moved, status }) => [moved, status])).toEqual([[2, 'settling']])
    expect(await new TaskQueue(store).redrive(['t0', 't0', 'unknown'], by)).toEqual([])
    const ended = (await audit()).filter(({ event_type }) => event_type === 'redrive_ended')
    const selection = { named: 2, ids: ['t0', 'unknown'] }
    expect(ended).toMatchObject([{ selection, moved: 0, why: 'it is back' }])
  })

  it('is on record with the first hundred of the ids that were named', async () => {
    const { store, ids, audit } = await deadLetters(103)
    await redriveDeadLetters(store, { ids }, by)
    const selection = { named: 103, ids: ids.slice(0, 100) }
    expect(await audit()).toMatchObject([
      { event_type: 'redrive_started', selection, moved: 0 },
      { event_type: 'redrive_ended', selection, moved: 103 },
    ])
  })

  it('is on record with the ids that were named if it is an operation', async () => {
    const { store, audit } = await deadLetters(3)
    await redriveDeadLetters(store, { ids: ['t0', 't2'] }, { ...by, canary: 1, signal: AbortSignal.abort() })
    const [created] = await audit()
    expect(created).toMatchObject({ event_type: 'operation_created', set: { named: 2, ids: ['t0', 't2'] } })
  })

  it('is not on record if the store has none of those that were named', async () => {
    const { store, audit } = await deadLetters(1)
    expect(await redriveDeadLetters(store, { ids: ['x', 'y'] }, by)).toMatchObject({ moved: 0, ids: [] })
    expect(await new TaskQueue(store).redrive('x', by)).toEqual([])
    expect(await audit()).toEqual([])
  })

  it('refuses an empty filter, and moves and records nothing', async () => {
    const { store, audit } = await deadLetters(1)
    for (const filter of [{}, { kind: undefined }])
      await expect(redriveDeadLetters(store, { filter }, by)).rejects.toThrow(OptionError)
    expect(await store.count({})).toMatchObject({ dead: 1 })
    expect(await audit()).toEqual([])
  })

  it.each([0, -1, Number.NaN])('refuses a rate of %d', async perSecond => {
    const { store } = await deadLetters(1)
    await expect(redriveDeadLetters(store, { all: true }, { ...by, perSecond })).rejects.toThrow(OptionError)
  })

  it.each([
    [100, 10],
    [2, 1],
    [0.5, 1],
  ])('moves %d per second at most, evenly', async (perSecond, atOnce) => {
    const { clock, store } = await deadLetters(50)
    const redriving = redriveDeadLetters(store, { all: true }, { ...by, perSecond, clock })
    const moved: number[] = []
    for (let second = 0; second < 4; second++) {
      await clock.advance(0)
      moved.push((await store.count({})).waiting)
      await clock.advance('1s')
    }
    expect(moved).toEqual([0, 1, 2, 3].map(second => Math.min(50, Math.floor(second * perSecond) + atOnce)))
    await clock.advance('5m')
    expect((await redriving).moved).toBe(50)
  })

  it('stops after the batch that is under way, and goes on with the rest when it is called again', async () => {
    const { clock, store, audit } = await deadLetters(50)
    const stop = new AbortController()
    const progress: number[] = []
    const onProgress = (moved: number) => {
      progress.push(moved)
      if (moved >= 20) stop.abort()
    }
    const options = { ...by, perSecond: 100, clock, signal: stop.signal, onProgress }
    const stopping = redriveDeadLetters(store, { filter: { kind: 'k' } }, options)
    await clock.advance('10s')
    const first = await stopping
    expect(first.isStopped).toBe(true)
    expect(progress).toEqual([10, 20])
    expect(clock.timers).toBe(0)
    expect(await store.count({})).toMatchObject({ waiting: 20, dead: 30 })
    expect((await audit()).at(-1)).toMatchObject({ event_type: 'operation_stopped', moved: 20 })

    const second = await redriveDeadLetters(store, { filter: { kind: 'k' } }, by)
    expect([first.moved, second.moved]).toEqual([20, 30])
    expect(await store.count({})).toMatchObject({ waiting: 50, dead: 0 })
  })

  it('that fails half-way stays on record with how many it had moved, for a worker to continue', async () => {
    const { store } = await deadLetters(2100)
    const step = store.operations.step.bind(store.operations)
    let calls = 0
    store.operations.step = (...call) => (++calls === 2 ? Promise.reject(new Error('away')) : step(...call))
    await expect(redriveDeadLetters(store, { all: true }, by)).rejects.toThrow('away')
    const { items } = await store.operations.list({ isOpen: true }, { limit: 1 })
    expect(items).toMatchObject([{ status: 'running', moved: 2000 }])
  })
})

it.each<[string, unknown]>([
  ['a filter field that does not exist', { filter: { code: 'http_502' } }],
  ['a mistyped name', { id: ['a'] }],
  ['all that is not true', { all: false }],
  ['an id in place of a list of ids', { ids: 'abc' }],
  ['two selections at once', { ids: ['a'], filter: { kind: 'k' } }],
  ['nothing', {}],
])('a selection by %s is refused: it must not mean everything', async (_, selection) => {
  const store = new MemoryStore()
  const refused = { code: 'invalid_option' }
  await expect(planRedrive(store, selection as LetterSelection)).rejects.toMatchObject(refused)
  const redriving = redriveDeadLetters(store, selection as LetterSelection, { who: 'ann' })
  await expect(redriving).rejects.toMatchObject(refused)
})
