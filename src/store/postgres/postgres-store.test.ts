import pg from 'pg'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { storeModelTest } from '../../../test/conformance/model-test.js'
import { storeConformance } from '../../../test/conformance/store-conformance.js'
import { emptyPostgresStore } from '../../../test/services/empty-postgres-store.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { idempotencyStoreConformance } from '../../testing/index.js'

let pool: pg.Pool
beforeAll(async () => {
  pool = new pg.Pool({ connectionString: await freshDatabase() })
}, 120_000)
afterAll(() => pool.end())

const open = () => emptyPostgresStore(pool)

describe('the PostgreSQL store keeps the contract', () => {
  for (const { name, run } of storeConformance(open)) it(name, run)
})

describe('its idempotency keys keep theirs', () => {
  for (const { name, run } of idempotencyStoreConformance(async () => {
    const { store, advance } = await open()
    return { store: store.idempotency, pass: advance, close: () => store.close() }
  }))
    it(name, run)
})

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(`the PostgreSQL store does what its model does (seed ${seed})`, { timeout: 120_000 }, () =>
  storeModelTest(open, { seed, runs: 20, withinMs: 100_000 }),
)
