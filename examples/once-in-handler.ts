/** A handler may run more than once for a task. What it writes through `once`, into the same database, exists once. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from 'better-sqlite3'
import { openSqlite } from 'redrive/sqlite'
import { StaleFenceError } from 'redrive/store'
import { defineTask, type TaskContext, TaskQueue, Worker } from 'redrive/task'

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
const store = await openSqlite(join(folder, 'shop.db'))
await store.transaction(db => db.exec('CREATE TABLE invoices (number INTEGER PRIMARY KEY, task TEXT NOT NULL)'))

let runs = 0
let oldRun: TaskContext | undefined
const bill = defineTask('bill', {
  policy: { attempts: 3, backoff: 'none' },
  handler: async (_: { customer: string }, task) => {
    runs++
    // The row, the key and its result are committed together. Whoever comes with the key later gets the result.
    const number = await task.once(`bill-${task.id}`, (tx: Database) => {
      const insert = tx.prepare('INSERT INTO invoices (task) VALUES (?)')
      return Number(insert.run(task.id).lastInsertRowid)
    })
    console.log(`  run ${runs}: invoice ${number}`)
    if (runs < 3) throw Object.assign(new Error('The printer is on fire.'), { status: 503 })
    oldRun = task
    return number
  },
})

const queue = new TaskQueue(store)
const worker = new Worker(store, { tasks: [bill] })
await worker.start()
const { id } = await queue.enqueue(bill, { customer: 'ada' })
while ((await queue.get(id))?.status !== 'succeeded') await delay(5)
await worker.stop()

const invoices = await store.transaction(db => db.prepare('SELECT count(*) FROM invoices').pluck().get())
console.log(`${runs} runs, ${invoices} invoice.`)
assert.deepEqual([runs, invoices], [3, 1])

// The fence: a run that no longer holds its task, such as one that stood still beyond its lease, writes nothing.
const late = oldRun?.once('another key', (tx: Database) => tx.exec('DELETE FROM invoices'))
await assert.rejects(async () => late, StaleFenceError)
console.log('A late run was refused.')

await store.close()
await rm(folder, { recursive: true })
