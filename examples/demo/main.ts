/** Run by `npm start`: a few thousand durable tasks on a bad day, from their first attempt to the dead letters. */
import { explain } from 'redrive/policy'
import { openSqlite } from 'redrive/sqlite'
import { TaskQueue, Worker } from 'redrive/task'
import { audit } from './audit.js'
import { summarise } from './ledger-summary.js'
import { type Counts, showProgress } from './progress.js'
import { report } from './report.js'
import { Tally } from './tally.js'
import { BATCH_SIZE, demoTasks, enqueueBatch } from './tasks.js'
import { painter, wrap } from './terminal.js'

const PATH = '.redrive/demo.db'
/** It ends by itself, however much there is to do. */
const MOST_MS = 22_000
const say = (text: string) => console.error(`${wrap(text)}\n`)

// Ctrl-C stops it gracefully. A second one does not wait: what was running is found by the next run, and counted as
// lost.
const stop = new AbortController()
process.once('SIGINT', () => {
  process.exitCode = 130
  stop.abort()
})
setTimeout(() => stop.abort(), MOST_MS).unref()

const store = await openSqlite(PATH)
const before = await store.count({})
const tally = await Tally.of(store)
if (total(before) > 0) say(continuing(before))

// Each run adds a batch, unless there is enough to do: emails, charges, and accounts to sync, which have a lane each.
const batch = Math.floor(total(before) / BATCH_SIZE) + 1
const tasks = demoTasks(batch)
const isEnough = before.waiting + before.running >= BATCH_SIZE
const added = isEnough ? 0 : await enqueueBatch(new TaskQueue(store), tasks, batch)
say(`${added} tasks added to ${PATH}: send-email, charge-card, sync-account. ${explain(tasks.sendEmail.policy).words}`)

// One worker runs them, until there is nothing left to do. Short leases, so that a killed run is soon taken over.
const worker = new Worker(store, {
  tasks: Object.values(tasks),
  concurrency: 50,
  lease: '3s',
  grace: '2s',
  sink: tally.sink,
})
await worker.start()
await showProgress(store, before, tally, process.stderr, stop.signal)
await worker.stop()

// Summarise the record, and check that it adds up.
const summary = await summarise(store, worker.name)
process.stdout.write(report(summary, PATH, painter(process.stdout)))
const claims = { total: total(before) + added, attempts: tally.attempts, isCutShort: stop.signal.aborted }
console.log(`\n${wrap(await audit(store, summary, claims))}`)

const { waiting, running } = await store.count({})
if (waiting + running > 0) console.log(`\nStopped with ${waiting + running} tasks to go. To continue: npm start`)
await store.close()

function continuing({ dead, waiting, running }: Counts): string {
  const killed = running > 0 ? `, and ${running} that were running when it was killed` : ''
  return `Continuing: ${dead} dead letters and ${waiting} waiting tasks from the last run${killed}.`
}

function total(counts: Counts): number {
  return Object.values(counts).reduce((sum, count) => sum + count, 0)
}
