import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { openPostgres, type PostgresStore } from './index.js'

/* A redrive reads dead letters without locking them, while others change them. */

const BY = { who: 'ada', why: 'it is back' }

let pool: pg.Pool
let store: PostgresStore
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
  store = await openPostgres(pool, { listen: false })
}, 120_000)
afterAll(async () => {
  await store.close()
  await pool.end()
})

async function deadLetter(): Promise<string> {
  const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
  const tried = { outcome: { type: 'dead', reason: 'final_error' }, attempt } as const
  const [letter] = await store.enqueue([{ kind: 'work', payload: '1', tried }])
  return letter?.id ?? ''
}

/** Runs a statement in a transaction that stays open until somebody waits for it. */
async function untilAwaited<T>(text: string, values: unknown[], meanwhile: () => Promise<T>): Promise<T> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query(text, values)
    const result = meanwhile()
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    await expect.poll(async () => (await pool.query(waiting)).rowCount, { timeout: 10_000 }).toBe(1)
    await client.query('COMMIT')
    return await result
  } finally {
    client.release()
  }
}

it('moves a letter whose payload is edited at the same time, with the new payload', async () => {
  const id = await deadLetter()
  const edit = `SELECT redrive.edit($1, '2', 'bob', NULL, NULL)`
  expect(await untilAwaited(edit, [id], () => store.redrive([id], BY))).toEqual([id])
  expect(await store.get(id)).toMatchObject({ status: 'waiting', payload: '2' })
  expect((await store.ledger(id)).map(({ outcome }) => outcome)).toEqual(['dead', 'edited', 'redriven'])
})

it('moves a letter once that two people redrive at the same time', async () => {
  const id = await deadLetter()
  const redrive = `SELECT redrive.redrive(ARRAY[$1::text], 'bob', NULL, NULL, NULL, NULL)`
  expect(await untilAwaited(redrive, [id], () => store.redrive([id], BY))).toEqual([])
  expect((await store.ledger(id)).map(({ outcome }) => outcome)).toEqual(['dead', 'redriven'])
})
