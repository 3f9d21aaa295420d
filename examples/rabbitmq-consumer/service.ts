/**
 * A service that reserves stock for orders. It consumes `order.placed` from RabbitMQ, keeps its stock and its retries in one
 * SQLite file, and ends on SIGTERM. It may be killed at any time. Run it with
 * `AMQP_URL=amqp://localhost STOCK_DB=stock.db npx tsx examples/rabbitmq-consumer/service.ts`.
 */
import type { Database } from 'better-sqlite3'
import { FinalError } from 'redrive'
import { consume, DocumentNotFoundError } from 'redrive/event'
import { openRabbitmq } from 'redrive/rabbitmq'
import { openSqlite } from 'redrive/sqlite'
import { on } from 'redrive/telemetry'
import { type OrderPlaced, QUEUE, TOPOLOGY } from './order-placed.js'

const { AMQP_URL = 'amqp://localhost', STOCK_DB = 'stock.db' } = process.env

const store = await openSqlite(STOCK_DB)
await store.transaction(db =>
  db.exec(`
    CREATE TABLE IF NOT EXISTS products (name TEXT PRIMARY KEY, stock INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS reservations ("order" INTEGER NOT NULL, product TEXT NOT NULL, quantity INTEGER NOT NULL)`),
)
const bus = await openRabbitmq(AMQP_URL, { onTrouble: trouble => console.warn(trouble.message) })
await bus.declare(TOPOLOGY)

const consumer = await consume<OrderPlaced>(bus, QUEUE, {
  service: 'stock',
  key: ({ order }) => [String(order)],
  store,
  policy: { attempts: 4, backoff: { base: '50ms', max: '1s' }, timeout: '5s' },
  async handler({ order, product, quantity }, { key }) {
    if (!(quantity > 0)) throw new FinalError(`Order ${order} asks for ${quantity}.`, { code: 'bad_quantity' })
    // An event may come twice, so the key, the reservation and the stock are committed together, once.
    await store.once(key, (db: Database) => {
      const update = db.prepare('UPDATE products SET stock = stock - ? WHERE name = ?').run(quantity, product)
      if (update.changes === 0) throw new DocumentNotFoundError(`There is no product '${product}' yet.`)
      db.prepare('INSERT INTO reservations VALUES (?, ?, ?)').run(order, product, quantity)
    })
  },
  sink: on({
    retry_scheduled: ({ work, attempt, delayMs }) =>
      console.log(`${work.idempotencyKey}: attempt ${attempt} failed, the next in ${delayMs} ms`),
    gave_up: ({ work, reason, verdict }) => console.log(`${work.idempotencyKey}: ${reason} (${verdict.code})`),
  }),
})
console.log('ready')

// Stop taking events, let the handlers end, then close what they use.
process.once('SIGTERM', async () => {
  await consumer.stop()
  await bus.close()
  await store.close()
})
