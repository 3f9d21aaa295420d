import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { floorAfter, nextAsk, retriesLeft } from '../rules/budgets/retry-allowance.js'
import { openPostgres } from './index.js'

const NOW = 1_700_000_000_000

let client: pg.Client
beforeAll(async () => {
  const url = await freshDatabase()
  const store = await openPostgres(url)
  await store.close()
  client = new pg.Client(url)
  await client.connect()
})
afterAll(() => client.end())

const windowMs = fc.oneof(
  fc.integer({ min: 10_000, max: 3_600_000 }),
  fc.constantFrom(10_000, 60_000, 120_000, 600_000),
)
const floor = fc.oneof(fc.double({ min: 0.1, max: 5, noNaN: true }), fc.constantFrom(0.1, 0.3, 1, 2.5, 10, 1000, 1e6))
const share = fc.oneof(fc.double({ min: 0.001, max: 1, noNaN: true }), fc.constantFrom(0.1, 0.2, 0.3, 1))
const budgets = fc.record({ share, windowMs, floor })

const cases = budgets.chain(budget =>
  fc.record({
    budget: fc.constant(budget),
    first: fc.nat(100_000),
    retried: fc.nat(20_000),
    floorAt: fc.oneof(
      fc.double({ min: NOW - 2 * budget.windowMs, max: NOW + budget.windowMs, noNaN: true }),
      fc.constantFrom(0, NOW),
    ),
    passed: fc.nat(5000),
  }),
)

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(`the functions for retry budgets decide as their rules do (seed ${seed})`, async () => {
  const given = fc.sample(cases, { seed, numRuns: 3000 })
  const { rows } = await client.query(
    `SELECT redrive.retries_left(budget, first, retried, floor_at, $2) AS passing,
       redrive.floor_after(budget, floor_at, passed, $2) AS moved,
       redrive.floor_asks_at(budget, floor_at, $2)::float8 AS asks
     FROM json_to_recordset($1) AS given (budget jsonb, first bigint, retried bigint, floor_at float8, passed bigint)`,
    [JSON.stringify(given.map(({ floorAt, ...one }) => ({ ...one, floor_at: floorAt }))), NOW],
  )
  const expected = given.map(({ budget, first, retried, floorAt, passed }) => ({
    passing: Math.min(1_000_000, retriesLeft(budget, { first, retried, floorAt }, NOW)),
    moved: floorAfter(budget, floorAt, passed, NOW),
    asks: nextAsk(budget, floorAt, NOW),
  }))
  expect(rows).toEqual(expected)
})
