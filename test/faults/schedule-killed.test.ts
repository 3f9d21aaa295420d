import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished, vi } from 'vitest'
import { timetable } from '../../src/calendar/internal.js'
import { backfillSchedule } from '../../src/operate/index.js'
import { schedule } from '../../src/schedule/index.js'
import { declareTask, defineTask, Worker } from '../../src/task/index.js'
import { freshDatabase } from '../services/fresh-database.js'
import { atRest, observe } from './at-rest.js'
import { Child } from './child-process.js'
import { diceOf } from './seed.js'

const SCHEDULES = 30
const KILLS = 6
const BACKFILL_KILLS = 3
const dice = diceOf('kill -9 of processes that fire schedules')

async function sqliteUrl(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-schedules-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return `sqlite:${join(folder, 'redrive.db')}`
}

it.each([
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
])(
  'on %s, each slot has one run and one record, however often processes that fire are killed',
  { timeout: 120_000 },
  async (_, urlOf) => {
    const url = await urlOf()
    const store = await observe(url)
    onTestFinished(() => store.close())
    const task = declareTask<null>('tick')
    const options = { every: '1s', task, catchUp: 'all' } as const
    const specs = Array.from({ length: SCHEDULES }, (_, n) => schedule(`s${n}`, options).spec)
    await store.schedules.declare(specs, { worker: 'w' }, timetable)
    const { createdAt = 0 } = (await store.schedules.get('s0')) ?? {}

    const survivor = new Child('schedule-child.ts', { url })
    for (let kill = 0; kill < KILLS; kill++) {
      const child = new Child('schedule-child.ts', { url })
      await child.ready
      await new Promise(resolve => setTimeout(resolve, dice.between(0, 1000)))
      await child.kill()
    }
    await survivor.kill()
    await atRest(url)
    // Nobody is left: the next process catches up.
    for (let hasMore = true; hasMore; ) ({ hasMore } = await store.schedules.fire(100, timetable))

    const runs: string[] = []
    for (const { name } of specs) {
      const cursor = (await store.schedules.get(name))?.cursor ?? 0
      const slots = await store.schedules.slots(name, 0, 1000)
      const first = Math.floor(createdAt / 1000) * 1000 + 1000
      expect(slots.map(({ slot }) => slot)).toEqual(
        Array.from({ length: (cursor - first) / 1000 + 1 }, (_, n) => first + n * 1000),
      )
      expect(new Set(slots.map(({ end }) => end))).toEqual(new Set(['ran']))
      runs.push(...slots.map(({ slot }) => `${name}@${new Date(slot).toISOString().replace('.000Z', 'Z')}`))
    }
    expect(runs.length).toBeGreaterThan(SCHEDULES)
    expect((await store.payloads(runs)).filter(payload => payload === undefined)).toEqual([])
    expect(await store.count({})).toMatchObject({ waiting: runs.length })
  },
)

it.each([
  ['sqlite', sqliteUrl, [0]],
  // Its own clock decides, whatever those of the processes say.
  ['postgres', freshDatabase, [0, 300_000, -300_000]],
] as const)('on %s, ten processes at one slot start one run', { timeout: 120_000 }, async (_, urlOf, shifts) => {
  const url = await urlOf()
  const store = await observe(url)
  onTestFinished(() => store.close())
  const startAt = Math.ceil((await store.now()) / 1000) * 1000 + 5000
  const task = declareTask<null>('tick')
  const specs = Array.from({ length: 5 }, (_, n) => schedule(`s${n}`, { every: '1h', task, startAt }).spec)
  await store.schedules.declare(specs, { worker: 'w' }, timetable)
  const children = Array.from({ length: 10 }, (_, n) => {
    const clockShiftMs = shifts[n % shifts.length]
    return new Child('schedule-child.ts', { url, clockShiftMs })
  })
  await Promise.all(children.map(({ ready }) => ready))
  expect.soft((await store.count({})).waiting === 0 || (await store.now()) >= startAt).toBe(true)
  await vi.waitFor(async () => expect((await store.count({})).waiting).toBe(specs.length), {
    timeout: 60_000,
    interval: 50,
  })
  // Whoever comes late finds nothing to do.
  await new Promise(resolve => setTimeout(resolve, 200))
  for (const child of children) await child.kill()
  await atRest(url)

  expect((await store.count({})).waiting).toBe(specs.length)
  for (const { name } of specs) {
    const slots = await store.schedules.slots(name, 0, 10)
    expect(slots.map(({ slot, end }) => [slot, end])).toEqual([[startAt, 'ran']])
  }
  expect(await store.now()).toBeGreaterThanOrEqual(startAt)
})

it.each([
  ['sqlite', sqliteUrl],
  ['postgres', freshDatabase],
])(
  'on %s, a backfill whose drivers are killed is carried on by a worker, and counts each run once',
  { timeout: 180_000 },
  async (_, urlOf) => {
    const url = await urlOf()
    const store = await observe(url)
    onTestFinished(() => store.close())
    const spec = schedule('hourly', { cron: '0 * * * *', task: declareTask<null>('tick'), catchUp: 'skip' }).spec
    await store.schedules.declare([spec], { worker: 'w' }, timetable)
    const [from = 0, to = 0] = ['2025-01-01T00:00:00Z', '2025-07-01T00:00:00Z'].map(time => Date.parse(time))
    const range = { from, to }
    for (let kill = 0; kill < BACKFILL_KILLS; kill++) {
      // It is ready once it has the lease, which the one before it has held until it ran out.
      const child = new Child('schedule-child.ts', { url, backfill: { name: 'hourly', ...range } })
      await child.ready
      await new Promise(resolve => setTimeout(resolve, dice.between(0, 500)))
      await child.kill()
    }
    await atRest(url)
    const begun = await store.operations.list({ isOpen: true }, { limit: 10 })
    expect(begun.items).toMatchObject([{ act: 'backfill', by: { who: 'anna' } }])
    const { id = '' } = begun.items[0] ?? {}
    // It runs none of the tasks, but all workers carry operations on.
    const worker = new Worker(store, { tasks: [defineTask('other', { handler: async () => {} })] })
    await worker.start()
    onTestFinished(() => worker.stop())
    await vi.waitFor(async () => expect((await store.operations.get(id))?.status).toBe('done'), {
      timeout: 90_000,
      interval: 100,
    })
    const expected = (to - from) / 3_600_000
    expect(await store.operations.get(id)).toMatchObject({ moved: expected, progress: { refused: {} } })
    const again = await backfillSchedule(store, 'hourly', range, { who: 'anna' })
    expect(again).toEqual({ started: 0, isStopped: false, operation: undefined })
    const slots = await store.schedules.slots('hourly', 0, 10_000)
    expect(new Set(slots.map(({ slot }) => slot)).size).toBe(expected)
    expect(slots.every(slot => slot.end === 'ran' && slot.operation === id)).toBe(true)
    expect(await store.count({})).toMatchObject({ waiting: expected })
  },
)
