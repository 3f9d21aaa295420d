import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { functionsIn, GONE, migrateTo, nextRelease } from '../../../test/next-release.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { defineTask, TaskQueue, Worker } from '../../task/index.js'
import { StoreForbiddenError, StoreNewerError, StoreNotReadyError } from '../contract/errors.js'
import { openPostgres } from './internal.js'

import { type Release, thisRelease } from './release.js'

let url: string
let pool: pg.Pool
beforeEach(async () => {
  url = await freshDatabase()
  pool = new pg.Pool({ connectionString: url })
}, 120_000)
afterEach(() => pool.end())

const open = async (schema = 'redrive') => (await openPostgres(url, { schema, listen: false })).close()

/** A release that changes functions alone: one has another body, and another one is new. */
async function otherFunctions(): Promise<Release> {
  const ours = await thisRelease()
  const { functions, functionsVersion } = ours
  return {
    ...ours,
    functionsVersion: functionsVersion + 1,
    hash: 'next',
    functions: `${functions.replace('SELECT 7', 'SELECT 70')}
      CREATE FUNCTION redrive.added() RETURNS int LANGUAGE sql AS 'SELECT 1';`,
  }
}

const recorded = async () => (await pool.query('SELECT * FROM redrive.schema_version')).rows
const cancelled = async () => (await pool.query('SELECT redrive.state_cancelled() AS state')).rows[0].state
const isThere = async (fn: string) =>
  (await pool.query(`SELECT to_regprocedure($1) IS NOT NULL AS there`, [fn])).rows[0].there

describe('a store of the release before', () => {
  it('has the same tables, types and functions after its upgrade as a fresh one', async () => {
    const next = await nextRelease()
    await open('upgraded')
    expect(await functionsOf('upgraded')).toEqual(next.lastFunctions)
    await migrateTo(next, pool, { schema: 'upgraded' })
    await migrateTo(next, pool, { schema: 'fresh' })
    const fresh = await catalogOf('fresh')
    expect(fresh.length).toBeGreaterThan(200)
    expect(fresh).toContain('column task.shade text f ')
    const isOld = (line: string) => next.lastFunctions.some(name => line.startsWith(`function ${name} `))
    const upgraded = await catalogOf('upgraded')
    expect(upgraded.filter(line => !isOld(line) || fresh.includes(line))).toEqual(fresh)
  })

  it('is not migrated by code that may not do so', async () => {
    await open()
    const opening = migrateTo(await nextRelease(), pool, { mayMigrate: false })
    await expect(opening).rejects.toThrow(StoreNotReadyError)
    const { version } = await thisRelease()
    await expect(opening).rejects.toThrow(`has version ${version}, and this Redrive needs version ${version + 1}`)
  })

  it('keeps the grants of another role', async () => {
    await open()
    const role = await makeRole()
    await pool.query(`
      GRANT USAGE ON SCHEMA redrive TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA redrive TO ${role};
      GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA redrive TO ${role};
      REVOKE EXECUTE ON FUNCTION redrive.now_ms FROM PUBLIC;
      GRANT EXECUTE ON FUNCTION redrive.now_ms TO ${role}`)
    const stranger = await makeRole()
    await migrateTo(await nextRelease(), pool)
    expect(await rights(role, 'redrive.now_ms(bigint)')).toBe(true)
    expect(await rights(stranger, 'redrive.now_ms(bigint)')).toBe(false)

    const theirs = await openPostgres(urlOf(role), { listen: false })
    await theirs.enqueue([{ id: 'a', kind: 'k', payload: '{}' }])
    const claim = { worker: 'w', leaseMs: 1000, rooms: [{ kinds: ['k'] }], limit: 1, isIdle: true }
    expect((await theirs.claim(claim)).tasks).toMatchObject([{ id: 'a' }])
    await theirs.close()
  })
})

describe('a store of another version', () => {
  it('that a build from before 0.1.0 wrote is refused by name, with advice', async () => {
    await open()
    for (const oldest of ['UPDATE redrive.schema_version SET oldest = 7', NO_OLDEST]) {
      await pool.query(`UPDATE redrive.schema_version SET version = 7; ${oldest}`)
      const opening = openPostgres(url)
      await expect(opening).rejects.toThrow(StoreNewerError)
      await expect(opening).rejects.toThrow(/has schema version 7, and .* export what you need with that build/)
    }
  })

  it('that is newer is opened if it says that this version still can, and left as it is', async () => {
    const { version } = await thisRelease()
    await open()
    await pool.query('UPDATE redrive.schema_version SET version = 1000, hash = $1', ['newer'])
    const before = await recorded()
    await open()
    expect(await recorded()).toEqual(before)
    await pool.query('UPDATE redrive.schema_version SET oldest = $1', [version + 1])
    await expect(openPostgres(url)).rejects.toThrow(StoreNewerError)
  })
})

/** The builds of long ago had no such column. */
const NO_OLDEST = 'ALTER TABLE redrive.schema_version DROP COLUMN oldest'

describe('functions', () => {
  it('are replaced by those of a newer release, and never by those of an older one', async () => {
    await open()
    const next = await otherFunctions()
    for (let round = 0; round < 2; round++) {
      await migrateTo(next, pool)
      expect(await recorded()).toMatchObject([{ functions: next.functionsVersion, hash: 'next' }])
      expect([await cancelled(), await isThere('redrive.added()')]).toEqual([70, true])
      // A process of this release restarts.
      await open()
      expect(await recorded()).toMatchObject([{ functions: next.functionsVersion, hash: 'next' }])
      expect([await cancelled(), await isThere('redrive.added()')]).toEqual([70, true])
    }
  })

  it('of another build of the same release are replaced', async () => {
    const ours = await thisRelease()
    const { hash, functionsVersion } = ours
    await open()
    await migrateTo({ ...(await otherFunctions()), functionsVersion }, pool)
    expect(await cancelled()).toBe(70)
    await migrateTo(ours, pool)
    expect(await recorded()).toMatchObject([{ hash }])
    expect(await cancelled()).toBe(7)
  })

  it('stay for one release after the last that had them, and are dropped then', async () => {
    await open()
    const next = await nextRelease()
    await migrateTo(next, pool)
    expect(await isThere(GONE)).toBe(true)
    const afterNext = {
      ...next,
      functionsVersion: next.functionsVersion + 1,
      lastFunctions: functionsIn(next.functions),
    }
    await migrateTo(afterNext, pool)
    expect(await isThere(GONE)).toBe(false)
    expect(await functionsOf('redrive')).toEqual(afterNext.lastFunctions)
  })

  it('are not replaced by code that may not migrate', async () => {
    await open()
    const { functionsVersion } = await thisRelease()
    const opening = migrateTo(await otherFunctions(), pool, { mayMigrate: false })
    await expect(opening).rejects.toThrow(StoreNotReadyError)
    await expect(opening).rejects.toThrow(`has functions ${functionsVersion}, and this Redrive needs`)
  })

  it('are replaced by their owner alone, and others are told so', async () => {
    await open()
    const role = await makeRole()
    const store = await openPostgres(url, { listen: false })
    await store.grant(role)
    await store.close()
    const theirs = new pg.Pool({ connectionString: urlOf(role) })
    const opening = migrateTo(await otherFunctions(), theirs)
    await expect(opening).rejects.toThrow(StoreForbiddenError)
    await expect(opening).rejects.toThrow(/refuses this user: .* Only the role that owns the store/)
    expect(await isThere('redrive.added()')).toBe(false)
    await theirs.end()
  })
})

describe('a schema change that has to wait for a lock', () => {
  it('gives up soon, lets others pass, and tries again until it gets it', { timeout: 30_000 }, async () => {
    await open()
    const next = await nextRelease()
    const reader = await pool.connect()
    await reader.query('BEGIN; SELECT FROM redrive.task')
    const opening = migrateTo(next, pool)
    await expect.poll(waiters, { timeout: 10_000 }).toBe(1)
    // This one is behind it.
    const behind = pool.query('SELECT count(*) FROM redrive.task')
    await behind
    await expect.poll(waiters, { timeout: 10_000, interval: 5 }).toBe(0)
    await expect.poll(waiters, { timeout: 10_000 }).toBe(1)
    await reader.query('COMMIT')
    reader.release()
    await opening
    expect(await recorded()).toMatchObject([{ version: next.version }])
  })
})

/** How many sessions wait to change a table. */
async function waiters(): Promise<number> {
  const { rows } = await pool.query(`
    SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
  return rows.length
}

/** The functions in a schema, as name/number of arguments. */
async function functionsOf(schema: string): Promise<string[]> {
  const text = `SELECT proname || '/' || pronargs AS name FROM pg_proc WHERE pronamespace = $1::regnamespace`
  const { rows } = await pool.query<{ name: string }>(text, [schema])
  return rows.map(({ name }) => name).sort()
}

/** A line for everything in a schema that code depends on. */
async function catalogOf(schema: string): Promise<string[]> {
  const { rows } = await pool.query(CATALOG, [schema])
  return rows.map(({ line }) => line.replaceAll(`${schema}.`, 'redrive.'))
}

const CATALOG = /* sql */ `
  SELECT format('column %s.%s %s %s %s', relname, attname, format_type(atttypid, atttypmod), attnotnull,
    pg_get_expr(adbin, adrelid)) AS line
  FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
  LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
  WHERE relnamespace = $1::text::regnamespace AND relkind IN ('r', 'v', 'c', 'S')
  UNION ALL
  SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = $1::text
  UNION ALL
  SELECT format('options %s %s', relname, reloptions) FROM pg_class
  WHERE relnamespace = $1::text::regnamespace AND reloptions IS NOT NULL
  UNION ALL
  SELECT format('function %s/%s %s %s', proname, pronargs, md5(replace(prosrc, $1 || '.', 'redrive.')), proconfig) FROM pg_proc
  WHERE pronamespace = $1::text::regnamespace
  ORDER BY line`

async function makeRole(): Promise<string> {
  const name = `role_${crypto.randomUUID().replaceAll('-', '')}`
  await pool.query(`CREATE ROLE ${name} LOGIN`)
  return name
}

function urlOf(role: string): string {
  const theirs = new URL(url)
  theirs.username = role
  return theirs.href
}

async function rights(role: string, fn: string): Promise<boolean> {
  const { rows } = await pool.query(`SELECT has_function_privilege($1, $2, 'EXECUTE') AS may`, [role, fn])
  return rows[0].may
}

describe('a store that a newer release migrates under a running worker', () => {
  const wait = defineTask('wait', {
    handler: (_: null, { signal }) =>
      new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  })

  it('goes on with it while that release supports this one', async () => {
    const store = await openPostgres(url, { listen: false })
    await migrateTo(await nextRelease(), pool)
    expect(await store.heartbeat({ worker: 'w', leaseMs: 1000 })).toMatchObject({ rescued: 0 })
    await store.close()
  })

  it('ends the worker with store_newer, which hands its work over, once that release does not', async () => {
    const store = await openPostgres(url, { listen: false })
    const { id } = await new TaskQueue(store).enqueue(wait, null)
    const worker = new Worker(store, { tasks: [wait], lease: '300ms' })
    await worker.start()
    await expect.poll(async () => (await store.get(id))?.status).toBe('running')
    await pool.query('UPDATE redrive.schema_version SET version = 999, oldest = 999')
    await expect(worker.stopped).rejects.toMatchObject({ name: 'StoreNewerError', code: 'store_newer' })
    expect(await store.get(id)).toMatchObject({ status: 'waiting', attempts: 0, losses: 0 })
    await store.close()
  })

  it('explains a call whose function is gone', async () => {
    const store = await openPostgres(url, { listen: false })
    const enqueue = (id: string) => store.enqueue([{ id, kind: 'k', payload: '1' }])
    await pool.query('ALTER FUNCTION redrive.enqueue_one RENAME TO gone')
    await expect(enqueue('a')).rejects.toMatchObject({ code: 'store_not_ready' })
    await pool.query('UPDATE redrive.schema_version SET version = 999, oldest = 999')
    await expect(enqueue('b')).rejects.toMatchObject({ code: 'store_newer' })
    await store.close()
  })
})
