import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { openPostgres, type PostgresStore } from './internal.js'

/*
 * In a database of which all tables are published, PostgreSQL refuses to update or delete rows of a table that has no replica
 * identity, whatever its `wal_level`.
 */

let pool: pg.Pool
let store: PostgresStore
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
  store = await openPostgres(pool, { listen: false })
  await pool.query('CREATE PUBLICATION everything FOR ALL TABLES')
}, 120_000)
afterAll(async () => {
  await store.close()
  await pool.end()
})

it('every table has a primary key or is its own replica identity', async () => {
  const { rows } = await pool.query(`
    SELECT relname FROM pg_class
    WHERE relnamespace = 'redrive'::regnamespace AND relkind = 'r' AND relreplident <> 'f'
      AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)`)
  expect(rows).toEqual([])
})

it('tasks are claimed, settled and deleted', async () => {
  await store.enqueue([{ id: 'a', kind: 'work', payload: '1' }])
  const request = { worker: 'w', leaseMs: 60_000, rooms: [{ kinds: ['work'] }], limit: 1, isIdle: false }
  const { tasks, now } = await store.claim(request)
  const attempt = { attempt: 1, startedAt: now, endedAt: now, worker: 'w' }
  await store.settle(tasks.map(({ id, token }) => ({ id, token, outcome: { type: 'succeeded' }, attempt })))
  await store.heartbeat({ worker: 'w', leaseMs: 60_000 })
  expect(await store.prune({ endedMs: 0, deadMs: 0, keysMs: 0, auditMs: 0 }, 10)).toBe(1)
})
