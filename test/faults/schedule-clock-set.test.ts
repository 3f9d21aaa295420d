import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { timetable } from '../../src/calendar/internal.js'
import { schedule } from '../../src/schedule/index.js'
import { MemoryStore, type StoreContract } from '../../src/store/internal.js'
import { openPostgres } from '../../src/store/postgres/internal.js'
import { openSqlite } from '../../src/store/sqlite/internal.js'
import { declareTask } from '../../src/task/index.js'
import { fakeClock } from '../../src/testing/index.js'
import type { Clock } from '../../src/time/index.js'
import { freshDatabase } from '../services/fresh-database.js'

const T0 = Date.parse('2027-06-01T00:00:00Z')
const MINUTE = 60_000
const HOUR = 60 * MINUTE

async function onSqlite(clock: Clock): Promise<StoreContract> {
  const folder = mkdtempSync(join(tmpdir(), 'redrive-clock-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return openSqlite(join(folder, 'redrive.db'), { clock })
}

async function onPostgres(clock: Clock): Promise<StoreContract> {
  const pool = new pg.Pool({ connectionString: await freshDatabase() })
  onTestFinished(() => pool.end())
  return openPostgres(pool, { clock, listen: false })
}

const STORES = {
  memory: async (clock: Clock) => new MemoryStore({ clock }),
  sqlite: onSqlite,
  postgres: onPostgres,
}

/** A schedule that is due every hour, in a store whose clock can be set. */
async function scene(open: (clock: Clock) => Promise<StoreContract>) {
  const fake = fakeClock(T0)
  let shiftMs = 0
  const store = await open({ ...fake, now: () => fake.now() + shiftMs })
  const { spec } = schedule('hourly', { every: '1h', task: declareTask<null>('tick'), catchUp: 'all' })
  await store.schedules.declare([spec], { worker: 'w' }, timetable)
  /** Fires at a time, in hours since the beginning. Returns the slots that ended. */
  const fireAt = async (hours: number) => {
    shiftMs = T0 + hours * HOUR - fake.now()
    const { slots } = await store.schedules.fire(100, timetable)
    return slots.map(({ slot, end }) => `${(slot - T0) / HOUR} ${end}`)
  }
  return { store, fireAt }
}

it.each(Object.entries(STORES))('on %s, a clock that is set back two hours fires nothing twice', async (_, open) => {
  const { store, fireAt } = await scene(open)
  expect(await fireAt(3)).toEqual(['1 ran', '2 ran', '3 ran'])
  for (const hours of [1, 2, 2.5, 3]) expect(await fireAt(hours)).toEqual([])
  expect(await fireAt(4)).toEqual(['4 ran'])
  expect((await store.count({})).waiting).toBe(4)
  await store.close()
})

it.each(Object.entries(STORES))(
  'on %s, a clock that is set forward two hours catches up, and back again fires nothing until it is there',
  async (_, open) => {
    const { store, fireAt } = await scene(open)
    expect(await fireAt(1)).toEqual(['1 ran'])
    expect(await fireAt(3)).toEqual(['2 ran', '3 ran'])
    for (const hours of [1, 1.5, 2, 3]) expect(await fireAt(hours)).toEqual([])
    expect(await fireAt(4)).toEqual(['4 ran'])
    expect((await store.schedules.slots('hourly', 0, 100)).map(({ slot }) => (slot - T0) / HOUR)).toEqual([1, 2, 3, 4])
    await store.close()
  },
)
