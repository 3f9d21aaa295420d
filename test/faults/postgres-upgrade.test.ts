import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { timetable } from '../../src/calendar/internal.js'
import { openPostgres } from '../../src/store/postgres/internal.js'
import { checkInvariants } from '../conformance/invariants.js'
import { migrateTo, nextRelease } from '../next-release.js'
import { fillForViews, fillWithKeys, markGroups } from '../view-contract.js'
import { expectAllAccountedFor } from './accounts.js'
import { ownPostgres } from './own-postgres.js'
import { Scene, until } from './scene.js'

/** Long enough that no worker is taken for dead, however busy the machine is. */
const LEASE_MS = 5000

const postgres = ownPostgres()
let url: string
let pool: pg.Pool
beforeEach(async () => {
  url = await postgres.server.createDatabase()
  pool = new pg.Pool({ connectionString: url, max: 20 })
})
afterEach(() => pool.end())

/** All rows of the store, but for its versions and the columns that the next release adds. */
async function rows(): Promise<unknown> {
  const { rows: tables } = await pool.query(`
    SELECT relname FROM pg_class WHERE relnamespace = 'redrive'::regnamespace AND relkind = 'r'
      AND relname <> 'schema_version' ORDER BY relname`)
  const all = await Promise.all(
    tables.map(async ({ relname }) => {
      const { rows: its } = await pool.query(
        `SELECT to_jsonb(its) - 'shade' - 'beats' AS row FROM redrive.${relname} AS its ORDER BY its::text`,
      )
      return [relname, its.map(({ row }) => row)]
    }),
  )
  return Object.fromEntries(all)
}

async function hasBeats(): Promise<boolean> {
  const { rows: beats } = await pool.query('SELECT coalesce(sum(beats), 0)::int AS count FROM redrive.worker')
  return beats[0].count > 0
}

describe('an upgrade to the next release', { timeout: 300_000 }, () => {
  it('leaves all rows as they are; keys are handed on and schedules fire as before', async () => {
    const store = await openPostgres(url, { listen: false })
    await fillForViews(store)
    await markGroups(store)
    const { id, token } = await fillWithKeys(store)
    await store.pause({ kind: 'later' }, { isPaused: true, who: 'ada', why: 'not yet' })
    const before = await rows()
    await migrateTo(await nextRelease(), pool)
    expect(await rows()).toEqual(before)
    await checkInvariants(store)
    await store.settle([{ id, token, outcome: { type: 'succeeded' } }])
    expect(await store.get('waits')).toMatchObject({ status: 'waiting', nextAttemptAt: expect.any(Number) })
    await until('a slot is due', async () => (await store.schedules.fire(10, timetable)).slots.length > 0)
    expect((await store.schedules.slots('tick', 0, 10)).map(({ end }) => end)).toContain('ran')
    await checkInvariants(store)
    await store.close()
  })

  it('does not disturb workers of this release, which may be restarted meanwhile', async () => {
    const scene = await Scene.on(url)
    try {
      const start = (enqueues: boolean) => scene.start({ enqueues, leaseMs: LEASE_MS })
      const workers = [start(true), start(true), start(false)]
      const goOn = async (count: number) => {
        const enough = scene.starts().length + count
        await until('they are at it', () => scene.starts().length > enough || workers.some(({ isOver }) => isOver))
      }
      await goOn(100)
      const next = await nextRelease()
      await Promise.all([1, 2, 3].map(() => migrateTo(next, pool)))
      const started = scene.starts().length
      await until('their heartbeats are counted, as the next release does', hasBeats)
      expect(await workers.pop()?.stop()).toMatchObject({ stale: 0 })
      workers.push(start(false))
      await goOn(50)
      for (const worker of workers) expect(await worker.stop()).toMatchObject({ stale: 0 })

      const { version, functionsVersion: functions, hash } = next
      const { rows: versions } = await pool.query('SELECT * FROM redrive.schema_version')
      expect(versions).toMatchObject([{ version, functions, hash }])
      scene.noteAccepted()
      const last = start(false)
      await expectAllAccountedFor(scene)
      await last.stop()
      const sum = scene.starts().length
      process.stdout.write(`[faults] ${sum} attempts around an upgrade, ${sum - started} of them after it\n`)
    } finally {
      await scene.close()
    }
  })
})
