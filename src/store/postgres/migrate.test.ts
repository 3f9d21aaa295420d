import pg from 'pg'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createRelease7 } from '../../../test/fixtures/postgres-7/release-7.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { defineTask, TaskQueue, Worker } from '../../task/index.js'
import { StoreForbiddenError, StoreForeignError, StoreNewerError, StoreNotReadyError } from '../contract/errors.js'
import { Database } from './database.js'
import { openPostgres } from './index.js'
import { migrate } from './migrate.js'
import { type Release, thisRelease } from './release.js'

let url: string
let pool: pg.Pool
beforeEach(async () => {
  url = await freshDatabase()
  pool = new pg.Pool({ connectionString: url })
}, 120_000)
afterEach(() => pool.end())

const open = async (schema = 'redrive') => (await openPostgres(url, { schema, listen: false })).close()

/** Opens the store as a release does whose functions differ from ours. */
async function openAs(release: Partial<Release>, { mayMigrate = true, as = pool } = {}): Promise<void> {
  const database = new Database({ pool: as, schema: 'redrive', name: 'The store', timeoutMs: 15_000, clock: undefined })
  await migrate(database, mayMigrate, { ...(await thisRelease()), ...release })
}

/** The next release: one function has another body, and another one is new. */
async function nextRelease(): Promise<Partial<Release>> {
  const { functions, functionsVersion } = await thisRelease()
  return {
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

describe('a store of version 7', () => {
  it('has the same tables, types and functions after its upgrade as a fresh one', async () => {
    await createRelease7(pool, 'upgraded')
    await open('upgraded')
    await open('fresh')
    const fresh = await catalogOf('fresh')
    expect(fresh.length).toBeGreaterThan(200)
    const { lastFunctions } = await thisRelease()
    const isOld = (line: string) => lastFunctions.some(name => line.startsWith(`function ${name} `))
    const upgraded = await catalogOf('upgraded')
    expect(upgraded.filter(line => !isOld(line) || fresh.includes(line))).toEqual(fresh)
  })

  it('is not opened by code that may not migrate', async () => {
    await createRelease7(pool)
    const opening = openPostgres(url, { migrate: false })
    await expect(opening).rejects.toThrow(StoreNotReadyError)
    const { version } = await thisRelease()
    await expect(opening).rejects.toThrow(`has version 7, and this Redrive needs version ${version}`)
  })

  it('keeps the grants of another role', async () => {
    await createRelease7(pool)
    const role = await makeRole()
    await pool.query(`
      GRANT USAGE ON SCHEMA redrive TO ${role};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA redrive TO ${role};
      GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA redrive TO ${role};
      REVOKE EXECUTE ON FUNCTION redrive.now_ms FROM PUBLIC;
      GRANT EXECUTE ON FUNCTION redrive.now_ms TO ${role}`)
    const stranger = await makeRole()
    await open()
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
  it.each([1, 6])('that was never released is refused by name: %i', async version => {
    await open()
    await pool.query('UPDATE redrive.schema_version SET version = $1', [version])
    const opening = openPostgres(url)
    await expect(opening).rejects.toThrow(StoreForeignError)
    await expect(opening).rejects.toThrow(`has schema version ${version}, which was never released`)
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

describe('functions', () => {
  it('are replaced by those of a newer release, and never by those of an older one', async () => {
    await open()
    const next = await nextRelease()
    for (let round = 0; round < 2; round++) {
      await openAs(next)
      expect(await recorded()).toMatchObject([{ functions: next.functionsVersion, hash: 'next' }])
      expect([await cancelled(), await isThere('redrive.added()')]).toEqual([70, true])
      // A process of this release restarts.
      await open()
      expect(await recorded()).toMatchObject([{ functions: next.functionsVersion, hash: 'next' }])
      expect([await cancelled(), await isThere('redrive.added()')]).toEqual([70, true])
    }
  })

  it('of another build of the same release are replaced', async () => {
    const { hash, functionsVersion } = await thisRelease()
    await open()
    await openAs({ ...(await nextRelease()), functionsVersion })
    expect(await cancelled()).toBe(70)
    await openAs({})
    expect(await recorded()).toMatchObject([{ hash }])
    expect(await cancelled()).toBe(7)
  })

  it('stay for one release after the last that had them, and are dropped then', async () => {
    await createRelease7(pool)
    const old = 'redrive.first_alone(text[], text[], bigint)'
    await open()
    expect(await isThere(old)).toBe(true)
    await openAs({ ...(await nextRelease()), lastFunctions: ['added/0'] })
    expect(await isThere(old)).toBe(false)
  })

  it('are not replaced by code that may not migrate', async () => {
    await open()
    const { functionsVersion } = await thisRelease()
    const opening = openAs(await nextRelease(), { mayMigrate: false })
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
    const opening = openAs(await nextRelease(), { as: theirs })
    await expect(opening).rejects.toThrow(StoreForbiddenError)
    await expect(opening).rejects.toThrow(/refuses this user: .* Only the role that owns the store/)
    expect(await isThere('redrive.added()')).toBe(false)
    await theirs.end()
  })
})

describe('a schema change that has to wait for a lock', () => {
  it('gives up soon, lets others pass, and tries again until it gets it', { timeout: 30_000 }, async () => {
    await createRelease7(pool)
    const reader = await pool.connect()
    await reader.query('BEGIN; SELECT FROM redrive.task')
    const opening = open()
    await expect.poll(waiters, { timeout: 10_000 }).toBe(1)
    // This one is behind it.
    const behind = pool.query('SELECT count(*) FROM redrive.task')
    await behind
    await expect.poll(waiters, { timeout: 10_000, interval: 5 }).toBe(0)
    await expect.poll(waiters, { timeout: 10_000 }).toBe(1)
    await reader.query('COMMIT')
    reader.release()
    await opening
    expect(await recorded()).toMatchObject([{ version: (await thisRelease()).version }])
  })
})

/** How many sessions wait to change a table. */
async function waiters(): Promise<number> {
  const { rows } = await pool.query(`
    SELECT FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
  return rows.length
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
    await openAs(await nextRelease())
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
    await expect(enqueue('a')).rejects.toMatchObject({ code: 'store_refused' })
    await pool.query('UPDATE redrive.schema_version SET version = 999, oldest = 999')
    await expect(enqueue('b')).rejects.toMatchObject({ code: 'store_newer' })
    await store.close()
  })
})
