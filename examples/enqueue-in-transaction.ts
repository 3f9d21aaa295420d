/** A row of your own and the task that follows from it are committed together, or not at all. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { openSqlite } from 'redrive/sqlite'
import { defineTask, TaskQueue } from 'redrive/task'

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
const path = join(folder, 'shop.db')
const store = await openSqlite(path)
const queue = new TaskQueue(store)
const sendReceipt = defineTask('send-receipt', { handler: (_: { order: number }) => {} })

// Your own connection to the same file, with tables of your own beside Redrive's.
const db = new Database(path)
db.pragma('synchronous = FULL') // As Redrive does. The driver's default may lose the last commits in a power cut.
db.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)')
const insertOrder = db.prepare('INSERT INTO orders (id, cents) VALUES (?, ?)')

async function placeOrder(id: number, cents: number): Promise<void> {
  const receipt = await queue.prepare(sendReceipt, { order: id }, { id: `receipt-${id}` })
  const place = db.transaction(() => {
    insertOrder.run(id, cents)
    store.enqueueIn(db, [receipt])
    if (cents < 0) throw new Error('An order cannot cost less than nothing.')
  })
  place.immediate() // Takes the lock at once, so that it need not wait for it half-way.
}

await placeOrder(1, 1999)
assert.deepEqual([orders(), await waiting()], [1, 1])
console.log('Committed: 1 order, 1 task.')

// The failure comes after both were written. Neither is left.
await assert.rejects(placeOrder(2, -5), /less than nothing/)
assert.deepEqual([orders(), await waiting()], [1, 1])
assert.equal(await store.get('receipt-2'), undefined)
console.log('Rolled back: still 1 order, 1 task.')

db.close()
await store.close()
await rm(folder, { recursive: true })

function orders(): unknown {
  return db.prepare('SELECT count(*) FROM orders').pluck().get()
}

async function waiting(): Promise<number> {
  return (await store.count({ kind: 'send-receipt' })).waiting
}
