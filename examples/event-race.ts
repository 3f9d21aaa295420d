/** An event may be quicker than the row it speaks of. A handler that retries gets there; an outbox makes it needless. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { MemoryBus, type NewMessage } from 'redrive/bus'
import { consume, DocumentNotFoundError, Outbox, waitForVersion } from 'redrive/event'
import { openSqlite } from 'redrive/sqlite'

interface Parsed {
  readonly message: number
}

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
const path = join(folder, 'archive.db')
const store = await openSqlite(path)
const db = new Database(path)
// The writer sees its row at once. The read replica shows it later: when `visible_at` has come.
db.exec('CREATE TABLE messages (id INTEGER PRIMARY KEY, visible_at INTEGER NOT NULL)')
const onReplica = db.prepare('SELECT id FROM messages WHERE id = ? AND visible_at <= ?').pluck()
const replicaAt = db.prepare('SELECT ifnull(max(id), 0) FROM messages WHERE visible_at <= ?').pluck()

const LAGS_MS = [400, 500, 600]
function addMessage(tx: Database.Database, lagMs: number): number {
  const insert = tx.prepare('INSERT INTO messages (visible_at) VALUES (?)')
  return Number(insert.run(Date.now() + lagMs).lastInsertRowid)
}

const bus = new MemoryBus()
await bus.declare({ chunking: 'json.parsed' })
const attempts = new Map<number, number>()
const consumer = await consume<Parsed>(bus, 'chunking', {
  service: 'chunking',
  key: ({ message }) => [String(message)],
  store,
  policy: { backoff: { base: '100ms' }, jitter: 'none' },
  handler: ({ message }, { attempt }) => {
    const found = onReplica.get(message, Date.now())
    console.log(`  message ${message}, attempt ${attempt}: ${found === undefined ? 'not there yet' : 'chunked'}`)
    if (found === undefined) throw new DocumentNotFoundError(`There is no message ${message}.`)
    attempts.set(message, attempt)
  },
})

console.log('Written, then published:')
for (const lagMs of LAGS_MS) {
  const message = addMessage(db, lagMs)
  await bus.publish({ id: `parsed-${message}`, type: 'json.parsed', body: JSON.stringify({ message }) })
}
while (attempts.size < LAGS_MS.length) await delay(5)
assert.ok([...attempts.values()].every(attempt => attempt > 1))
console.log(`Every event came too early: ${[...attempts.values()].join(', ')} attempts.`)

console.log('Through an outbox, whose relay publishes what the replica shows:')
attempts.clear()
const outbox = new Outbox(store)
const seen = {
  async publish(event: NewMessage) {
    const { message } = JSON.parse(String(event.body)) as Parsed
    await waitForVersion(() => ({ version: Number(replicaAt.get(Date.now())) }), message)
    await bus.publish(event)
  },
}
const relay = outbox.relay(seen)
await relay.start()
for (const lagMs of LAGS_MS) {
  // Both or neither: an event never speaks of a row that was rolled back, and no row is without its event.
  await store.transaction(tx => {
    const message = addMessage(tx, lagMs)
    outbox.publish(tx, { type: 'json.parsed', key: 'archive', body: JSON.stringify({ message }) })
  })
}
while (attempts.size < LAGS_MS.length) await delay(5)
assert.ok([...attempts.values()].every(attempt => attempt === 1))
assert.deepEqual([...attempts.keys()], [4, 5, 6])
console.log('No event needed a second attempt, and they came in their order.')

await relay.stop()
await consumer.stop()
await bus.close()
assert.equal((await store.count({})).dead, 0)
db.close()
await store.close()
await rm(folder, { recursive: true })
