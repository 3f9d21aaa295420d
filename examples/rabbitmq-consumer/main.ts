/**
 * Publishes orders, kills the service half-way with SIGKILL, and shows that every order is accounted for. Needs a RabbitMQ:
 * `AMQP_URL=amqp://localhost npx tsx examples/rabbitmq-consumer/main.ts`.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { explainTask, listTasks, redriveDeadLetters } from 'redrive/operate'
import { openRabbitmq } from 'redrive/rabbitmq'
import { openSqlite } from 'redrive/sqlite'
import { type OrderPlaced, QUEUE, TOPOLOGY } from './order-placed.js'

const ORDERS = 1000
const { AMQP_URL = 'amqp://localhost' } = process.env

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
const STOCK_DB = join(folder, 'stock.db')

// The shop: it publishes, and knows nothing of the service.
const bus = await openRabbitmq(AMQP_URL)
await bus.declare(TOPOLOGY)
const place = (order: OrderPlaced) =>
  bus.publish({ id: `order-${order.order}`, type: 'order.placed', body: JSON.stringify(order) })

const store = await openSqlite(STOCK_DB)
let service = await startService()
await store.transaction(db => db.exec(`INSERT INTO products VALUES ('book', 5000)`))

const placed = Array.from({ length: ORDERS }, (_, i) => place({ order: i + 1, product: 'book', quantity: 1 }))
await until(async () => (await reservations()) > 50)
await end(service, 'SIGKILL')
await Promise.all(placed)
console.log(`Killed after ${await reservations()} of ${ORDERS} reservations.`)

service = await startService()
await until(async () => (await reservations()) === ORDERS)
assert.equal(await stockOf('book'), 5000 - ORDERS)
console.log(`A new process did the rest: ${ORDERS} reservations, none of them twice.`)

// Three that fail: one for a product that comes later, one that can never succeed, and one that is not even JSON.
await place({ order: 9001, product: 'lamp', quantity: 2 })
await place({ order: 9002, product: 'book', quantity: -1 })
await bus.publish({ id: 'order-9003', type: 'order.placed', body: 'not JSON' })
const dead = { kind: `event:${QUEUE}`, status: 'dead' } as const
await until(async () => (await store.count(dead)).dead === 3)
for (const { id, reason, errorCode } of (await listTasks(store, dead)).items)
  console.log(`Dead: ${id}, ${reason}, ${errorCode}`)
const letter = await explainTask(store, `${QUEUE}/order-9001`)
assert.equal(letter?.history.length, 4)

// Somebody adds the product and redrives what died of its absence. The other two stay where they are.
await store.transaction(db => db.exec(`INSERT INTO products VALUES ('lamp', 5)`))
const missing = { filter: { kind: `event:${QUEUE}`, errorCode: 'document_not_found' } }
const { moved } = await redriveDeadLetters(store, missing, { who: 'ada', why: 'lamps are in stock now' })
assert.equal(moved, 1)
await until(async () => (await stockOf('lamp')) === 3)
assert.equal((await store.count(dead)).dead, 2)
console.log('Redriven: order 9001 has its lamps.')

assert.equal(await end(service, 'SIGTERM'), 0)
await bus.close()
await store.close()
await rm(folder, { recursive: true })

/** Starts the service as a process of its own, and waits until it takes events. */
async function startService(): Promise<ChildProcess> {
  const file = join(import.meta.dirname, 'service.ts')
  const env = { ...process.env, AMQP_URL, STOCK_DB }
  const child = spawn(process.execPath, [...process.execArgv, file], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  process.once('exit', () => child.kill('SIGKILL')) // whatever happens, it does not outlive this program
  await new Promise<void>((resolve, reject) => {
    child.once('exit', code => reject(new Error(`The service ended with ${code}.`)))
    child.stdout.setEncoding('utf8').on('data', (text: string) => (text.includes('ready') ? resolve() : undefined))
  })
  return child
}

/** Sends a signal to the service, and returns its exit code once it has ended. */
async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  const ended = once(child, 'exit')
  child.kill(signal)
  const [code] = await ended
  return code
}

function reservations(): Promise<number> {
  return store.transaction(db => db.prepare<[], number>('SELECT count(*) FROM reservations').pluck().get() ?? 0)
}

function stockOf(product: string): Promise<number | undefined> {
  const sql = 'SELECT stock FROM products WHERE name = ?'
  return store.transaction(db => db.prepare<[string], number>(sql).pluck().get(product))
}

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await delay(20)
}
