import { expect, it } from 'vitest'
import type { PolicyInput } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'
import { defineTask, TaskQueue, Worker } from '../task/index.js'
import { fakeClock } from '../testing/index.js'
import {
  cancelTasks,
  planOperation,
  prioritizeTasks,
  promoteTasks,
  redriveDeadLetters,
  rescheduleTasks,
  runOperation,
  startOperation,
  verify,
} from './index.js'

const by = { who: 'ada', why: 'it is back' }

it('tasks are promoted, rescheduled and prioritized by filter and by id, and what is left alone is said', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const runAt = clock.now() + 60_000
  await store.enqueue(['a', 'b', 'c'].map(id => ({ id, kind: 'k', payload: '{}', runAt })))
  await store.enqueue([{ id: 'd', kind: 'k', payload: '{}' }])
  await cancelTasks(store, ['c'], by)

  expect(await planOperation(store, 'promote', { filter: { kind: 'k' } })).toMatchObject({
    count: 3,
    refused: [{ reason: 'already_due', count: 1 }],
  })
  const promoted = await promoteTasks(store, { filter: { kind: 'k' } }, by)
  expect(promoted).toMatchObject({ moved: 2, refused: [], isStopped: false })
  expect(promoted.operation?.progress.refused).toEqual({ already_due: 1 })

  const at = new Date(clock.now() + 5000)
  const rescheduled = await rescheduleTasks(store, { ids: ['a', 'c', 'none'] }, { ...by, runAt: at })
  expect(rescheduled).toMatchObject({ moved: 1, refused: [{ id: 'c', code: 'already_ended' }, { id: 'none' }] })
  expect((await store.get('a'))?.nextAttemptAt).toBe(at.getTime())
  await expect(rescheduleTasks(store, { ids: ['a'] }, { ...by, runAt: 'soon' })).rejects.toThrow(/'runAt' must be/)

  expect(await prioritizeTasks(store, { all: true }, { ...by, priority: 3, limit: 2 })).toMatchObject({ moved: 2 })
  expect([(await store.get('a'))?.priority, (await store.get('b'))?.priority]).toEqual([3, 3])
  expect((await store.get('d'))?.priority).toBe(0)
  expect(await promoteTasks(store, { filter: { kind: 'other' } }, by)).toMatchObject({ moved: 0, operation: undefined })
})

it('an operation that was stopped goes on where it was, and changes each task once', async () => {
  const store = new MemoryStore()
  const ids = Array.from({ length: 50 }, (_, n) => `t${n}`)
  await store.enqueue(ids.map(id => ({ id, kind: 'k', payload: '{}' })))
  const { id } = await startOperation(store, 'prioritize', { all: true }, { ...by, priority: 1, perSecond: 100 })
  const stop = new AbortController()
  await runOperation(store, id, {
    driver: 'a',
    signal: stop.signal,
    onProgress: ({ moved }) => moved >= 10 && stop.abort(),
  })
  await store.operations.change(id, 'stop', by)
  const { moved = 0 } = (await store.operations.get(id)) ?? {}
  expect(moved).toBeLessThan(50)
  await store.operations.change(id, 'continue', by)
  expect(await runOperation(store, id, { driver: 'b' })).toMatchObject({ moved: 50, status: 'done' })
  for (const each of ids) expect(await store.ledger(each)).toHaveLength(1)
})

it('tasks of one ordered lane are cancelled, however many there are', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  await store.limit({ kind: 'k' }, { isOrdered: true })
  await store.enqueue(Array.from({ length: 1500 }, () => ({ kind: 'k', key: 't', payload: '{}' })))
  // Each was submitted a millisecond after the one before.
  await clock.advance(1500)
  const { id } = await startOperation(store, 'cancel', { filter: { kind: 'k' } }, by)
  expect(await runOperation(store, id, { driver: 'a' })).toMatchObject({ moved: 1500, status: 'done' })
})

it('decisions on a redriven task that was rescheduled can be recomputed: its time to live begins at its new time', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const policy: PolicyInput = { attempts: 5, backoff: ['10m'], ttl: '30m' }
  let fails = 0
  const task = defineTask('k', {
    policy,
    handler() {
      fails++
      throw new Error('down')
    },
  })
  await new TaskQueue(store).enqueue(task, null, { id: 't' })
  const worker = new Worker(store, { tasks: [task], clock })
  await worker.start()
  await clock.advance('2h')
  expect((await store.get('t'))?.status).toBe('dead')
  await worker.stop()
  await redriveDeadLetters(store, { ids: ['t'] }, by)
  await rescheduleTasks(store, { ids: ['t'] }, { ...by, runAt: clock.now() + 3_600_000 })
  const failed = fails
  const other = new Worker(store, { tasks: [task], clock })
  await other.start()
  await clock.advance('75m')
  await other.stop()
  expect(fails).toBeGreaterThan(failed + 1)
  expect(await verify(store)).toMatchObject({ discrepancies: [], problems: [], unknown: 0 })
})
