import { expect, it } from 'vitest'
import { schedule } from '../schedule/index.js'
import { MemoryStore } from '../store/internal.js'

import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { declareTask, defineTask, type TaskContext, Worker, type WorkerOptions } from './index.js'

const MINUTE = 60_000
const T0 = Date.parse('2027-03-28T00:30:00Z')
const BY = { who: 'anna' }

type Seen = Pick<TaskContext, 'id' | 'schedule' | 'slot' | 'scheduledFor' | 'isCatchUp'>

/** A worker on a fake clock whose only task notes what it sees. */
async function scene(
  options: Partial<WorkerOptions> = {},
  clock: FakeClock = fakeClock(T0),
  store = new MemoryStore({ clock }),
) {
  const seen: Seen[] = []
  const events: WorkEvent[] = []
  const report = defineTask('report', {
    handler: async (_: null, { id, schedule: name, slot, scheduledFor, isCatchUp }) => {
      seen.push({ id, schedule: name, slot, scheduledFor, isCatchUp })
    },
  })
  const nightly = schedule('nightly', { cron: '30 2 * * *', timeZone: 'Europe/Berlin', task: report })
  const worker = new Worker(store, {
    tasks: [report],
    schedules: [nightly],
    clock,
    sink: event => events.push(event),
    ...options,
  })
  return { store, clock, seen, events, worker, report, nightly }
}

it('a schedule runs its task at its time, and the handler learns which time it is for', async () => {
  const { worker, clock, seen } = await scene()
  await worker.start()
  await clock.advance(29 * MINUTE)
  expect(seen).toEqual([])
  await clock.advance(MINUTE)
  // The clocks jump from 02:00 to 03:00.
  const slot = Date.parse('2027-03-28T01:00:00Z')
  expect(seen).toEqual([
    {
      id: 'nightly@2027-03-28T01:00:00Z',
      schedule: 'nightly',
      slot: '2027-03-28T02:30:00',
      scheduledFor: slot,
      isCatchUp: false,
    },
  ])
  await clock.advance(48 * 60 * MINUTE)
  expect(seen.map(({ slot }) => slot)).toEqual(['28', '29', '30'].map(day => `2027-03-${day}T02:30:00`))
  await worker.stop()
})

it('a worker tells its sink of each slot', async () => {
  const { worker, clock, events } = await scene()
  await worker.start()
  await clock.advance(30 * MINUTE)
  const work = { kind: 'schedule', id: 'nightly@2027-03-28T01:00:00Z', name: 'nightly' }
  const slot = T0 + 30 * MINUTE
  expect(events.filter(({ type }) => type === 'slot_ended')).toEqual([
    { type: 'slot_ended', work, at: slot, slot, end: 'ran' },
  ])
  await worker.stop()
})

it('a worker tells its sink of slots that others have ended, with its next heartbeat', async () => {
  const { store, worker, clock, events } = await scene()
  await worker.start()
  const { timetable } = await import('../calendar/internal.js')
  await store.schedules.run('nightly', BY, timetable)
  await store.schedules.pause('nightly', BY)
  await clock.advance(31 * MINUTE)
  await store.schedules.resume('nightly', BY, timetable)
  await clock.advance(MINUTE)
  const told = events.flatMap(event => (event.type === 'slot_ended' ? [[event.end, event.reason]] : []))
  expect(told).toEqual([
    ['ran', 'it was started by anna'],
    ['skipped', 'the schedule was paused by anna'],
  ])
  await worker.stop()
})

it('a slot that was missed while nothing ran is caught up at the next start, and says so', async () => {
  const { store, worker, clock } = await scene()
  await worker.start()
  await worker.stop()
  await clock.advance(3 * 60 * MINUTE)
  const later = await scene({}, clock, store)
  await later.worker.start()
  await clock.advance(0)
  expect(later.seen).toMatchObject([{ slot: '2027-03-28T02:30:00', isCatchUp: true }])
  await later.worker.stop()
})

it('any worker fires what another one has declared, while a worker with the task runs it', async () => {
  const { store, worker, clock, seen } = await scene()
  await worker.start()
  await worker.stop()
  const other = new Worker(store, { tasks: [defineTask('other', { handler: () => {} })], clock })
  await other.start()
  await clock.advance(30 * MINUTE)
  expect(await store.get('nightly@2027-03-28T01:00:00Z')).toMatchObject({ status: 'waiting' })
  const again = await scene({ schedules: [] }, clock, store)
  await again.worker.start()
  await clock.advance(0)
  expect([...seen, ...again.seen]).toHaveLength(1)
  await Promise.all([other.stop(), again.worker.stop()])
})

it('a schedule that was paused or changed elsewhere is noticed within seconds', async () => {
  const { store, worker, clock, seen, nightly } = await scene()
  await worker.start()
  const { timetable } = await import('../calendar/internal.js')
  const soon = { ...nightly.spec, times: { cron: '31 2 * * *' }, timeZone: 'Europe/London' }
  await store.schedules.set({ ...soon, name: 'soon', times: { everyMs: MINUTE } }, BY, timetable)
  await clock.advance(MINUTE)
  expect(seen.map(({ schedule: name }) => name)).toEqual(['soon'])
  await store.schedules.pause('soon', BY)
  await clock.advance(2 * MINUTE)
  expect(seen).toHaveLength(1)
  await worker.stop()
})

it('a task whose own id looks like that of a run is a task like any other', async () => {
  const { store, worker, clock, seen } = await scene()
  await store.enqueue([{ kind: 'report', payload: 'null', id: 'mine@2027-03-28T01:00:00Z' }])
  await worker.start()
  await clock.advance(0)
  expect(seen).toEqual([
    {
      id: 'mine@2027-03-28T01:00:00Z',
      schedule: undefined,
      slot: undefined,
      scheduledFor: undefined,
      isCatchUp: false,
    },
  ])
  await worker.stop()
})

it('a worker does not start with a payload that its task refuses, or with two schedules of one name', async () => {
  const validate = () => ({ issues: [{ message: 'must be a region' }] })
  const strict = declareTask<string>('strict', { payload: { '~standard': { version: 1, vendor: 'test', validate } } })
  const clock = fakeClock(T0)
  const store = new MemoryStore({ clock })
  const start = (...schedules: ReturnType<typeof schedule>[]) => new Worker(store, { schedules, clock }).start()
  await expect(start(schedule('bad', { cron: '@daily', task: strict, payload: 'x' }))).rejects.toThrow(
    /must be a region \(in the schedule 'bad'\)/,
  )
  const free = declareTask<null>('free')
  const [a, b] = ['@daily', '@hourly'].map(cron => schedule('twice', { cron, task: free }))
  await expect(start(...[a, b].filter(one => one !== undefined))).rejects.toThrow(/two schedules with the name 'twice'/)
  expect((await store.schedules.list({ limit: 9 })).items).toEqual([])
})

it('a worker that is older than the declaration warns, and leaves it', async () => {
  const { store, worker, clock, report } = await scene({ release: '2.0.0' })
  await worker.start()
  await worker.stop()
  const old = schedule('nightly', { cron: '0 4 * * *', task: report })
  const warned = new Promise<Error>(resolve => process.once('warning', resolve))
  const older = new Worker(store, { tasks: [report], schedules: [old], release: '1.9.0', clock })
  await older.start()
  expect((await warned).message).toMatch(/A newer release has declared these schedules otherwise.*'nightly'/)
  expect((await store.schedules.get('nightly'))?.times).toEqual({ cron: '30 2 * * *' })
  await older.stop()
})
