import fc from 'fast-check'
import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { type ClaimedTask, contractOf, type StoreContract } from '../internal.js'
import { costLeft } from '../rules/budgets/cost-gate.js'
import { openPostgres } from './index.js'

let client: pg.Client
let stores: StoreContract[]
beforeAll(async () => {
  const url = await freshDatabase()
  stores = []
  for (let n = 0; n < 3; n++) stores.push(contractOf(await openPostgres(url)))
  client = new pg.Client(url)
  await client.connect()
})
afterAll(async () => {
  await client.end()
  for (const store of stores) await store.close()
})

const amount = fc.oneof(fc.double({ min: 1e-6, max: 1e15, noNaN: true }), fc.constantFrom(1, 10, 100, 0.3, 2e6))
/** As `spend` counts it: next to nothing is nothing. */
const spent = fc.oneof(fc.double({ min: 1e-30, max: 1e15, noNaN: true }), fc.constantFrom(0, 1e-30, 1, 30, 100, 1e300))
const costs = (amounts: fc.Arbitrary<number>) =>
  fc.dictionary(fc.constantFrom('tokens', 'dollars', 'toString'), amounts)
const cases = fc.record({
  amounts: costs(amount).filter(amounts => Object.keys(amounts).length > 0),
  used: costs(spent),
  attempts: fc.oneof(fc.nat(3), fc.nat(1_000_000)),
  recent: costs(spent),
})

const seed = Number(process.env.REDRIVE_TEST_SEED ?? Date.now() % 1_000_000)

it(`the function for cost budgets decides as its rule does (seed ${seed})`, async () => {
  const given = fc.sample(cases, { seed, numRuns: 3000 })
  const { rows } = await client.query(
    `SELECT redrive.cost_room(amounts, used, attempts, recent) AS room
     FROM json_to_recordset($1) AS given (amounts jsonb, used jsonb, attempts bigint, recent jsonb)`,
    [JSON.stringify(given)],
  )
  const expected = given.map(({ amounts, used, attempts, recent }) => ({
    room: costLeft({ amounts, windowMs: 60_000 }, { used, recent: { attempts, used: recent } }, 0),
  }))
  expect(rows).toEqual(expected)
})

/** Claims tasks of a kind, as another worker of another process. */
async function claimed(store: StoreContract, kind: string, limit: number): Promise<readonly ClaimedTask[]> {
  const worker = `w${stores.indexOf(store)}`
  return (await store.claim({ worker, leaseMs: 600_000, rooms: [{ kinds: [kind] }], limit, isIdle: false })).tasks
}

async function settle(store: StoreContract, tasks: readonly ClaimedTask[], tokens: number): Promise<void> {
  const attempt = { attempt: 1, startedAt: 0, endedAt: 0, worker: 'w' }
  await store.settle(
    tasks.map(({ id, token }) => ({ id, token, outcome: { type: 'succeeded' }, attempt, used: { tokens } })),
  )
}

it('processes that claim at once do not exceed a cost budget together', async () => {
  const [first] = stores
  if (first === undefined) throw new Error('There are three stores.')
  for (const kind of ['a', 'b', 'c', 'd', 'e', 'f']) {
    await first.budgets.set({ kind }, { cost: { amounts: { tokens: 1000 } } })
    await first.enqueue(Array.from({ length: 200 }, () => ({ kind, payload: '1' })))
    await settle(first, await claimed(first, kind, 1), 10)
    const together = await Promise.all(stores.map(store => claimed(store, kind, 60)))
    const rest = await claimed(first, kind, 200)
    expect(together.flat().length + rest.length).toBe(99)
    await settle(first, [...together.flat(), ...rest], 10)
    expect(await claimed(first, kind, 1)).toEqual([])
  }
  expect((await first.budgets.list())[0]?.cost).toMatchObject({ used: { tokens: 1000 }, isSpent: true })
}, 60_000)

it('a settlement that is sent twice at once spends once', async () => {
  const [first, second] = stores
  if (first === undefined || second === undefined) throw new Error('There are three stores.')
  await first.enqueue(Array.from({ length: 50 }, () => ({ kind: 'twice', payload: '1' })))
  for (const task of await claimed(first, 'twice', 50))
    await Promise.all([settle(first, [task], 1), settle(second, [task], 1)])
  expect(await first.costs({ kind: 'twice' }, [])).toEqual([{ used: { tokens: 50 } }])
}, 60_000)
