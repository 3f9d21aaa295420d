import { expect, it } from 'vitest'
import { type ScheduleOptions, schedule } from '../schedule/index.js'
import { MemoryStore } from '../store/internal.js'
import { declareTask, defineTask, Worker } from '../task/index.js'
import { fakeClock } from '../testing/index.js'
import {
  backfillSchedule,
  findSchedule,
  operationOutcome,
  pauseSchedule,
  planBackfill,
  resumeSchedule,
  runOperation,
  setSchedule,
  startBackfill,
  undoOperation,
  why,
} from './index.js'

const HOUR = 3_600_000
const T0 = Date.parse('2027-01-01T00:00:00Z')
const BY = { who: 'ada', why: 'an outage' }
const task = declareTask<null>('sync')

/** An hourly schedule, all of whose slots were skipped for some hours. */
async function scene(hours: number, options: Partial<ScheduleOptions<null>> = {}) {
  const clock = fakeClock(T0)
  const store = new MemoryStore({ clock })
  const made = schedule('hourly', { every: '1h', task, ...options })
  await setSchedule(store, made, BY)
  await pauseSchedule(store, 'hourly', BY)
  await clock.advance(hours * HOUR)
  await resumeSchedule(store, 'hourly', BY)
  await clock.advance(1)
  return { clock, store, made, range: { from: T0 + 1, to: clock.now() } }
}

it('plans: slots that would run, that have run, and whose run is there already', async () => {
  const { store, range, made } = await scene(5)
  await store.enqueue([{ id: 'hourly@2027-01-01T02:00:00Z', kind: 'mine', payload: '1' }])
  const first = await backfillSchedule(store, 'hourly', { from: T0 + 1, to: T0 + 1.5 * HOUR }, BY)
  expect(first).toMatchObject({
    started: 1,
    isStopped: false,
    operation: { act: 'backfill', status: 'done', moved: 1 },
  })
  const plan = await planBackfill(store, 'hourly', range)
  expect(plan.slots.map(({ slot, end }) => [slot.slice(11, 16), end])).toEqual([
    ['03:00', 'skipped'],
    ['04:00', 'skipped'],
    ['05:00', 'skipped'],
  ])
  expect(plan).toMatchObject({ haveRun: 1, refused: [{ reason: 'run_exists', count: 1 }] })
  const all = await backfillSchedule(store, 'hourly', range, BY)
  expect(all).toMatchObject({ started: 3, operation: { progress: { refused: { has_run: 1, run_exists: 1 } } } })
  expect(all.operation && (await operationOutcome(store, all.operation))).toBe('3 started.')
  expect(await backfillSchedule(store, 'hourly', range, BY)).toEqual({
    started: 0,
    isStopped: false,
    operation: undefined,
  })
  await expect(planBackfill(store, 'hourly', { from: T0, to: T0 + 9 * HOUR })).rejects.toThrow('now at the latest')
  await expect(planBackfill(store, made.name, { from: T0 - 20_000 * HOUR, to: T0 })).rejects.toThrow('more than 10000')
})

it('starts a year of runs at a rate, stops, goes on, and another call joins it', async () => {
  const { store, range, clock } = await scene(1000)
  const abort = new AbortController()
  const rates: number[] = []
  let before = clock.now()
  const options = { ...BY, perSecond: 100, clock, signal: abort.signal }
  const onProgress = (started: number) => {
    rates.push(started / Math.max(1, clock.now() - before))
    if (started >= 300) abort.abort()
  }
  const running = backfillSchedule(store, 'hourly', range, { ...options, onProgress })
  for (let n = 0; n < 60; n++) await clock.advance(100)
  const stopped = await running
  expect(stopped).toMatchObject({ isStopped: true, operation: { status: 'stopped', set: { count: 1000 } } })
  expect(stopped.started).toBeGreaterThanOrEqual(300)
  expect(stopped.started).toBeLessThan(400)
  // After the first batch, no more than a tenth of a run for each millisecond.
  expect(rates.slice(1).every(rate => rate <= 0.2)).toBe(true)
  const { id = '' } = stopped.operation ?? {}
  expect((await store.count({})).waiting).toBe(stopped.started)

  await store.operations.change(id, 'continue', BY)
  before = clock.now()
  const joined = await startBackfill(store, 'hourly', range, { ...BY, perSecond: 100 })
  expect(joined?.id).toBe(id)
  const rest = runOperation(store, id, { driver: 'w', clock })
  for (let n = 0; n < 100; n++) await clock.advance(100)
  expect(await rest).toMatchObject({ status: 'done', moved: 1000 })
  expect((await store.count({})).waiting).toBe(1000)
})

it('starts no more than its limit', async () => {
  const { store, range } = await scene(10)
  expect(await backfillSchedule(store, 'hourly', range, { ...BY, limit: 4 })).toMatchObject({ started: 4 })
  expect((await planBackfill(store, 'hourly', range)).slots).toHaveLength(6)
  const limits = { atOnce: 0 }
  await expect(backfillSchedule(store, 'hourly', range, { ...BY, ...limits })).rejects.toThrow("'atOnce' must be")
})

it('is carried out by workers, one run after the other where none may overlap', async () => {
  const { store, range, clock } = await scene(5, { overlap: 'skip', startAt: new Date(T0) })
  let [running, most] = [0, 0]
  const sync = defineTask('sync', {
    handler: async () => {
      most = Math.max(most, ++running)
      await new Promise<void>(done => clock.setTimer({ wake: done }, 60_000))
      running--
    },
  })
  const started = await startBackfill(store, 'hourly', range, BY)
  expect(started).toMatchObject({ settings: { atOnce: 1 } })
  const worker = new Worker(store, { tasks: [sync], concurrency: 10, clock })
  await worker.start()
  for (let n = 0; n < 30; n++) await clock.advance(20_000)
  expect(await store.operations.get(started?.id ?? '')).toMatchObject({ status: 'done', moved: 5 })
  await clock.advance(60_000)
  expect([most, (await store.count({})).succeeded]).toEqual([1, 5])
  await worker.stop()
})

it('stops where runs wait for each other and nobody runs them', async () => {
  const { store, range, clock } = await scene(5)
  const stopped = await backfillSchedule(store, 'hourly', range, { ...BY, atOnce: 2, clock })
  expect(stopped).toMatchObject({ started: 2, isStopped: true })
  expect(stopped.operation?.reason).toContain('No worker is running')
})

it('stops where the schedule is another one by now', async () => {
  const { store, range } = await scene(5)
  const started = await startBackfill(store, 'hourly', range, BY)
  await setSchedule(store, schedule('hourly', { every: '2h', task }), BY)
  expect(await runOperation(store, started?.id ?? '', { driver: 'w' })).toMatchObject({
    status: 'stopped',
    moved: 0,
    reason: "The schedule 'hourly' was changed. Backfill it anew.",
  })
})

it('is undone: runs that have not begun are cancelled, and why says so', async () => {
  const { store, range } = await scene(5)
  const { operation } = await backfillSchedule(store, 'hourly', range, BY)
  expect(await undoOperation(store, operation?.id ?? '', { who: 'bob' })).toEqual({ undone: 5, isStopped: false })
  expect(await store.count({})).toMatchObject({ waiting: 0, cancelled: 5 })
  const { slots } = await findSchedule(store, 'hourly')
  expect(slots.map(({ end }) => end)).toEqual(Array.from({ length: 5 }, () => 'skipped'))
  const answer = await why(store, 'hourly@2027-01-01T02:00:00Z')
  expect(JSON.stringify(answer)).toContain('its backfill was undone by bob before it began')
})

it('needs slots, which no other act has', async () => {
  const { store, range, made } = await scene(1)
  const set = { schedule: made.name, generation: 1, count: 1, ...range }
  const create = (act: 'backfill' | 'cancel', members: object) =>
    store.operations.create({ act, set: members as typeof set, by: BY })
  await expect(create('cancel', set)).rejects.toThrow('A cancel needs tasks')
  await expect(create('backfill', { ids: ['a'] })).rejects.toThrow("A backfill needs the slots of a 'schedule'")
  await expect(create('backfill', { ...set, from: 'soon' })).rejects.toThrow("'from'")
})
