/** A durable task: defined, enqueued and run by a worker; given up, it is a dead letter that can be redriven. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { openSqlite } from 'redrive/sqlite'
import { defineTask, TaskQueue, Worker } from 'redrive/task'

let isMailServerUp = false

const sendEmail = defineTask('send-email', {
  policy: { attempts: 3, backoff: { base: '20ms' } },
  handler: async ({ to }: { to: string }, { attempt }) => {
    console.log(`  attempt ${attempt}: mail to ${to}`)
    if (!isMailServerUp) throw Object.assign(new Error('The mail server is down.'), { code: 'ECONNREFUSED' })
    return { accepted: to }
  },
})

const folder = await mkdtemp(join(tmpdir(), 'redrive-'))
const store = await openSqlite(join(folder, 'redrive.db'))
const queue = new TaskQueue(store)
const worker = new Worker(store, { tasks: [sendEmail] })

// The promise resolves once the task is on disk. From then on it is run until it succeeds or is given up.
const { id } = await queue.enqueue(sendEmail, { to: 'ada@example.com' }, { id: 'welcome-ada' })
const again = await queue.enqueue(sendEmail, { to: 'ada@example.com' }, { id: 'welcome-ada' })
assert.deepEqual([again.id, again.outcome, again.status], [id, 'kept', 'waiting'])
await worker.start()
assert.equal(await ended(), 'dead')

const letter = await queue.deadLetter(id)
assert(letter !== undefined)
console.log(`Dead: ${letter.reason}, ${letter.errorMessage}`)
for (const { attempt, outcome, delayMs } of letter.history) console.log(`  ${attempt}. ${outcome} ${delayMs ?? ''}`)
assert.deepEqual([letter.errorCode, letter.history.length], ['ECONNREFUSED', 3])

// The server is back: fresh attempts, and the history stays.
isMailServerUp = true
assert.deepEqual(await queue.redrive(id, { who: 'ada', why: 'the mail server is back' }), [id])
assert.equal(await ended(), 'succeeded')
const outcomes = (await store.ledger(id)).map(({ outcome }) => outcome)
console.log(`Redriven: ${outcomes.join(', ')}`)
assert.deepEqual(outcomes, ['retry', 'retry', 'dead', 'redriven', 'succeeded'])

await worker.stop()
await store.close()
await rm(folder, { recursive: true })

async function ended(): Promise<string> {
  for (;;) {
    const task = await queue.get(id)
    if (task !== undefined && task.status !== 'waiting' && task.status !== 'running') return task.status
    await delay(5)
  }
}
