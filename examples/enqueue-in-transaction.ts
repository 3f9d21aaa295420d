/** A row of your own and the task that follows from it are committed together, or not at all. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqlite } from 'redrive/sqlite'
import { defineTask, TaskQueue } from 'redrive/task'

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
const store = await openSqlite(join(folder, 'shop.db'))
const queue = new TaskQueue(store)
const sendReceipt = defineTask('send-receipt', { handler: (_: { order: number }) => {} })

// Tables of your own stand beside Redrive's.
await store.transaction(db => db.exec('CREATE TABLE orders (id INTEGER PRIMARY KEY, cents INTEGER NOT NULL)'))

async function placeOrder(id: number, cents: number): Promise<void> {
  const receipt = await queue.prepare(sendReceipt, { order: id }, { id: `receipt-${id}` })
  await store.transaction(db => {
    db.prepare('INSERT INTO orders (id, cents) VALUES (?, ?)').run(id, cents)
    store.enqueueIn(db, [receipt])
    if (cents < 0) throw new Error('An order cannot cost less than nothing.')
  })
}

await placeOrder(1, 1999)
assert.deepEqual([await orders(), await waiting()], [1, 1])
console.log('Committed: 1 order, 1 task.')

// The failure comes after both were written. Neither is left.
await assert.rejects(placeOrder(2, -5), /less than nothing/)
assert.deepEqual([await orders(), await waiting()], [1, 1])
assert.equal(await store.get('receipt-2'), undefined)
console.log('Rolled back: still 1 order, 1 task.')

await store.close()
await rm(folder, { recursive: true })

function orders(): Promise<unknown> {
  return store.transaction(db => db.prepare('SELECT count(*) FROM orders').pluck().get())
}

async function waiting(): Promise<number> {
  return (await store.count({ kind: 'send-receipt' })).waiting
}
