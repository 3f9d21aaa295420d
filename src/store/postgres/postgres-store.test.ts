import pg from 'pg'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { fakeClock, idempotencyStoreConformance } from '../../testing/index.js'
import { storeConformance, storeModelTest } from '../../testing/store-conformance/index.js'
import { openPostgres } from './index.js'

let pool: pg.Pool
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
}, 120_000)
afterAll(() => pool.end())

const EMPTY = `TRUNCATE ${[
  'lane',
  'tally',
  'pause_rule',
  'limit_rule',
  'task',
  'waiting',
  'claim',
  'ended',
  'ledger',
  'worker',
  'policy',
  'idempotency',
  'audit',
]
  .map(table => `redrive.${table}`)
  .join(', ')}`

/** An empty store. */
async function open() {
  const clock = fakeClock()
  const store = await openPostgres(pool, { clock })
  await pool.query(EMPTY)
  return { store, clock }
}

describe('the PostgreSQL store keeps the contract', () => {
  for (const { name, run } of storeConformance(async () => {
    const { store, clock } = await open()
    return { store, advance: (ms: number) => clock.advance(ms) }
  }))
    it(name, run)
})

describe('its idempotency keys keep theirs', () => {
  for (const { name, run } of idempotencyStoreConformance(async () => {
    const { store, clock } = await open()
    return { store: store.idempotency, pass: (ms: number) => clock.advance(ms), close: () => store.close() }
  }))
    it(name, run)
})

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(`the PostgreSQL store does what its model does (seed ${seed})`, { timeout: 120_000 }, () =>
  storeModelTest(
    async () => {
      const { store, clock } = await open()
      return { store, advance: (ms: number) => clock.advance(ms) }
    },
    { seed, runs: 20 },
  ),
)
