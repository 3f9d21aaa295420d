import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import {
  expectedAttempts,
  expectedGroups,
  expectedLetters,
  fillForViews,
  markGroups,
  VIEW_COLUMNS,
} from '../../../test/view-contract.js'
import { openPostgres, type PostgresStore } from './internal.js'

let pool: pg.Pool
let store: PostgresStore
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
  store = await openPostgres(pool, { listen: false })
  await fillForViews(store)
})
afterAll(async () => {
  await store.close()
  await pool.end()
})

/** The columns that are bigint, which the driver gives as text. */
const WHOLE = /_ms$|^(seen|retrying|dead)$/

/** Rows as JSON holds them, with whole numbers as numbers. */
async function rowsOf(query: string): Promise<object[]> {
  const { rows } = await pool.query<Record<string, unknown>>(query)
  return rows.map(row =>
    Object.fromEntries(
      Object.entries(row).map(([name, value]) => {
        if (value instanceof Date) return [name, value.toISOString()]
        return [name, WHOLE.test(name) && value !== null ? Number(value) : value]
      }),
    ),
  )
}

it.each(Object.entries(VIEW_COLUMNS))('the view %s has these columns, in this order', async (view, columns) => {
  const { fields } = await pool.query(`SELECT * FROM redrive.${view} LIMIT 0`)
  expect(fields.map(({ name }) => name).join(' ')).toBe(columns)
})

it('has the figures of every failure group', async () => {
  const groups = await rowsOf('SELECT * FROM redrive.failure_groups')
  expect(groups).toMatchObject([{ seen: 5, retrying: 1, dead: 1 }])
  expect(groups).toEqual(await expectedGroups(store))
})

it('has every attempt, those of successes included, and every dead letter', async () => {
  const attempts = await rowsOf('SELECT * FROM redrive.attempts')
  expect(attempts).toHaveLength(9)
  expect(new Set(attempts)).toEqual(new Set(await expectedAttempts(store)))
  expect(await rowsOf('SELECT * FROM redrive.dead_letters')).toEqual(await expectedLetters(store))
})

it.each([
  "SELECT * FROM redrive.attempts WHERE task = 'dead'",
  "SELECT * FROM redrive.dead_letters WHERE kind = 'mail' AND died_at > now() - interval '1 day'",
])('reads no table of work as a whole, where there are many successes: %s', async query => {
  await pool.query(/* sql */ `
    INSERT INTO redrive.task (id, lane, state, priority, submitted_at, started_at, changed_at, payload, ran_attempt, ran_from, ran_to)
    SELECT 'bulk' || n, (SELECT max(id) FROM redrive.lane), 4, 0, 0, 0, 0, '{}', 1, 0, 0 FROM generate_series(1, 20000) AS n
    ON CONFLICT DO NOTHING`)
  await pool.query('ANALYZE redrive.task')
  const { rows } = await pool.query<{ 'QUERY PLAN': string }>(`EXPLAIN ${query}`)
  const plan = rows.map(row => row['QUERY PLAN']).join('\n')
  expect(plan).not.toMatch(/Seq Scan on (task|ledger)/)
})

it('lets a role read the views, and nothing else', async () => {
  await pool.query('CREATE ROLE "board reader"')
  await expect(store.grantRead('nobody')).rejects.toThrow("The database has no role 'nobody'.")
  await store.grantRead('board reader')
  const client = await pool.connect()
  try {
    await client.query('SET ROLE "board reader"')
    expect((await client.query('SELECT * FROM redrive.dead_letters')).rowCount).toBe(1)
    expect((await client.query('SELECT * FROM redrive.failure_groups')).rowCount).toBe(1)
    await expect(client.query('SELECT * FROM redrive.task')).rejects.toThrow('permission denied')
    await expect(client.query('DELETE FROM redrive.dead_letters')).rejects.toThrow(/permission denied|cannot delete/)
  } finally {
    await client.query('RESET ROLE')
    client.release()
  }
})

it('shows no payload of a living task, not even to a function of the reader’s own that the planner would call first', async () => {
  await store.enqueue([{ kind: 'k', payload: '"of a living task"' }])
  await pool.query('CREATE ROLE spy')
  await store.grantRead('spy')
  const client = await pool.connect()
  const seen: string[] = []
  client.on('notice', ({ message }) => seen.push(String(message)))
  try {
    await client.query(`CREATE FUNCTION public.look(text) RETURNS boolean LANGUAGE plpgsql COST 0.000001
      AS $$ BEGIN RAISE NOTICE '%', $1; RETURN true; END $$`)
    await client.query('SET ROLE spy; SET enable_nestloop = off')
    const { rows } = await client.query('SELECT payload FROM redrive.dead_letters WHERE public.look(payload)')
    expect(seen).toEqual(rows.map(({ payload }) => payload))
  } finally {
    await client.query('RESET ROLE; RESET enable_nestloop')
    client.release()
  }
})

it('has the state of every failure group', async () => {
  await markGroups(store)
  expect(new Set(await rowsOf('SELECT * FROM redrive.failure_groups'))).toEqual(new Set(await expectedGroups(store)))
})
