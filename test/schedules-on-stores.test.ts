import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, it, onTestFinished } from 'vitest'
import { schedule } from '../src/schedule/index.js'
import { type CatchUp, contractOf, MemoryStore, type StoreContract } from '../src/store/internal.js'
import { openSqlite } from '../src/store/sqlite/internal.js'
import { defineTask, Worker } from '../src/task/index.js'
import { type FakeClock, fakeClock } from '../src/testing/index.js'
import { emptyPostgresStore } from './services/empty-postgres-store.js'
import { freshDatabase } from './services/fresh-database.js'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const T0 = Date.parse('2000-01-01T00:00:00Z')

type Opened = { readonly store: StoreContract; readonly clock: FakeClock }

const STORES: readonly (readonly [string, () => Promise<Opened>])[] = [
  [
    'memory',
    async () => {
      const clock = fakeClock(T0)
      return { store: new MemoryStore({ clock }), clock }
    },
  ],
  [
    'sqlite',
    async () => {
      const folder = mkdtempSync(join(tmpdir(), 'redrive-schedules-'))
      const clock = fakeClock(T0)
      const store = await openSqlite(join(folder, 'redrive.db'), { clock })
      onTestFinished(async () => {
        await store.close()
        rmSync(folder, { recursive: true })
      })
      return { store, clock }
    },
  ],
  [
    'postgres',
    async () => {
      const pool = new pg.Pool({ connectionString: await freshDatabase() })
      const { store, clock } = await emptyPostgresStore(pool)
      onTestFinished(async () => {
        await store.close()
        await pool.end()
      })
      return { store, clock }
    },
  ],
]

/** Lets seconds pass, and the database answer in between, until something has come of it. */
async function until(clock: FakeClock, isSo: () => Promise<boolean> | boolean): Promise<void> {
  for (let n = 0; n < 400 && !(await isSo()); n++) {
    await clock.advance(25)
    await new Promise(resolve => setTimeout(resolve, 2))
  }
  expect(await isSo()).toBe(true)
}

describe.each(STORES)('on %s', (_, open) => {
  const report = (seen: [number | undefined, boolean][]) =>
    defineTask('report', { handler: (_: null, task) => void seen.push([task.scheduledFor, task.isCatchUp]) })

  it.each([
    ['1 ms before a slot', -1],
    ['exactly at a slot', 0],
    ['1 ms after a slot', 1],
  ])('a worker that stops and starts again %s runs it once, on time', async (_, ms) => {
    const { store, clock } = await open()
    const seen: [number | undefined, boolean][] = []
    const task = report(seen)
    const schedules = [schedule('hourly', { cron: '0 * * * *', task })]
    const run = async (isSo: () => Promise<boolean> | boolean) => {
      const worker = new Worker(store, { tasks: [task], schedules, clock })
      await worker.start()
      await until(clock, isSo)
      await worker.stop()
    }
    await run(() => true)
    const slot = Math.ceil((clock.now() + 1) / HOUR) * HOUR
    await clock.advance(slot + ms - clock.now())
    await run(() => seen.length > 0)
    await run(async () => (await store.count({})).succeeded === 1)
    expect(seen).toEqual([[slot, false]])
    expect(await store.schedules.slots('hourly', 0, 9)).toMatchObject([{ slot, end: 'ran' }])
  })

  it.each<[CatchUp, '1d' | '5h', number]>([
    ['skip', '1d', 0],
    ['last', '1d', 1],
    ['all', '1d', 24],
    ['all', '5h', 5],
  ])('after a day without a worker, catchUp %s within %s runs that many: %i', async (catchUp, within, runs) => {
    const { store, clock } = await open()
    const seen: [number | undefined, boolean][] = []
    const task = report(seen)
    const rules = { catchUp, ...(catchUp !== 'skip' && { catchUpWithin: within }) }
    const schedules = [schedule('hourly', { every: '1h', task, ...rules })]
    const first = new Worker(store, { tasks: [task], schedules, clock })
    await first.start()
    await first.stop()
    // The last slot was half an hour ago.
    await clock.advance(T0 + 24.5 * HOUR - clock.now())
    const second = new Worker(store, { tasks: [task], schedules, clock })
    await second.start()
    await until(clock, async () => {
      const slots = await store.schedules.slots('hourly', 0, 99)
      return slots.length === 24 && seen.length >= runs
    })
    await second.stop()
    expect(seen.map(([, isCatchUp]) => isCatchUp)).toEqual(Array.from({ length: runs }, () => true))
    const ends = (await store.schedules.slots('hourly', 0, 99)).map(({ end }) => end)
    const missed = Array.from({ length: 24 - runs }, () => 'missed')
    expect(ends).toEqual([...missed, ...Array.from({ length: runs }, () => 'ran')])
  })

  it('of two releases that declare it otherwise during a deploy, the newer one wins', async () => {
    const { store, clock } = await open()
    const task = report([])
    const start = async (release: string, cron: string) => {
      const worker = new Worker(store, {
        tasks: [task],
        schedules: [schedule('report', { cron, task })],
        release,
        clock,
      })
      await worker.start()
      return worker
    }
    const before = await start('1.9.0', '0 4 * * *')
    const after = await start('2.0.0', '0 5 * * *')
    const warned = new Promise<Error>(resolve => process.once('warning', resolve))
    // The older one crashes, and is started again.
    await before.stop()
    const again = await start('1.9.0', '0 4 * * *')
    expect((await warned).message).toMatch(/A newer release has declared these schedules otherwise/)
    await Promise.all([after.stop(), again.stop()])
    await clock.advance(T0 + 5 * HOUR + MINUTE / 2 - clock.now())
    const older = await start('1.9.0', '0 4 * * *')
    await until(clock, async () => (await store.count({})).succeeded === 1)
    await older.stop()
    const slots = await store.schedules.slots('report', 0, 9)
    expect(slots.map(({ slot, end }) => [slot, end])).toEqual([[T0 + 5 * HOUR, 'ran']])
  })

  it('a payload that the task refuses by now is a dead letter of that slot, and the schedule goes on', async () => {
    const { store, clock } = await open()
    const plain = report([])
    const first = new Worker(store, {
      tasks: [plain],
      schedules: [schedule('daily', { cron: '@daily', task: plain })],
      clock,
    })
    await first.start()
    await first.stop()
    const validate = () => ({ issues: [{ message: 'must have a region' }] })
    const payload = { '~standard': { version: 1, vendor: 'test', validate } } as const
    const strict = defineTask('report', { payload, handler: () => {} })
    for (const day of [1, 2]) {
      await clock.advance(T0 + day * 24 * HOUR + MINUTE / 2 - clock.now())
      const released = new Worker(store, { tasks: [strict], clock })
      await released.start()
      await until(clock, async () => (await store.count({})).dead === day)
      await released.stop()
    }
    const { items } = await contractOf(store).list({ status: 'dead' }, { limit: 9 })
    expect(items.map(({ id }) => id).toSorted()).toEqual(['daily@2000-01-02T00:00:00Z', 'daily@2000-01-03T00:00:00Z'])
    expect(items[0]?.errorMessage).toContain('must have a region')
    expect((await store.schedules.slots('daily', 0, 9)).map(({ end }) => end)).toEqual(['ran', 'ran'])
  })
})
