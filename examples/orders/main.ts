/**
 * Orders and the tasks that follow from them in one database: on SQLite, and on PostgreSQL if DATABASE_URL is set. Run it with
 * `npx tsx examples/orders/main.ts`.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { explainTask, redriveDeadLetters, untilEmpty } from 'redrive/operate'
import { PaymentProvider } from './payments.js'
import { PostgresShop } from './postgres-shop.js'
import type { Shop } from './shop.js'
import { SqliteShop } from './sqlite-shop.js'
import { shopWorker } from './worker.js'

const ORDERS = 50
const DECLINED = 13
const KINDS = ['charge-card', 'send-receipt']

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
await sell('SQLite', await SqliteShop.open(join(folder, 'shop.db')))
await rm(folder, { recursive: true })

const url = process.env.DATABASE_URL
if (url === undefined) console.log('PostgreSQL: skipped, since DATABASE_URL is not set.')
else await sell('PostgreSQL', await PostgresShop.open(url))

async function sell(database: string, shop: Shop): Promise<void> {
  const payments = new PaymentProvider()
  payments.declined.add(DECLINED)
  const mailed: number[] = []

  // The orders are placed while no worker runs: the tasks wait in the database.
  for (let id = 1; id <= ORDERS; id++) await shop.place({ id, cents: id * 100 })
  // The table refuses this order after its task was enqueued. Neither is left.
  await assert.rejects(shop.place({ id: 99, cents: -1 }))
  assert.equal(await shop.store.get('charge-99'), undefined)
  assert.deepEqual(await shop.count(), { placed: ORDERS })

  const worker = shopWorker(shop, payments, order => mailed.push(order))
  await worker.start()
  await untilEmpty(shop.store, { kinds: KINDS })
  assert.deepEqual(await shop.count(), { paid: ORDERS - 1, placed: 1 })

  // One card was declined. Its task is a dead letter that says why.
  const letter = await explainTask(shop.store, `charge-${DECLINED}`)
  console.log(`${database}: order ${DECLINED} is not paid: ${letter?.errorMessage} (${letter?.reason}).`)
  assert.deepEqual([letter?.status, letter?.errorCode], ['dead', 'http_402'])

  // The customer has a new card: fresh attempts for what died of it.
  payments.declined.delete(DECLINED)
  const declined = { filter: { kind: 'charge-card', errorCode: 'http_402' } }
  const { moved } = await redriveDeadLetters(shop.store, declined, { who: 'ada', why: 'the customer has a new card' })
  assert.equal(moved, 1)
  await untilEmpty(shop.store, { kinds: KINDS })
  await worker.stop()

  assert.deepEqual(await shop.count(), { paid: ORDERS })
  assert.equal(payments.charges.size, ORDERS) // no card was charged twice
  assert.equal(mailed.length, ORDERS)
  console.log(
    `${database}: ${ORDERS} orders paid and mailed, with ${payments.requests} requests for ${ORDERS} charges.`,
  )
  await shop.close()
}
