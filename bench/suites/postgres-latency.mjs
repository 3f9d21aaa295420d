// How soon an idle worker on PostgreSQL starts new work, and how soon after its due time a retry starts.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, TaskQueue, Worker } from '../../dist/task/index.js'
import { median } from '../interleave.mjs'
import { enqueuerApart, monotonicMs } from '../postgres/enqueuer-apart.mjs'
import { open } from '../postgres/redrive.mjs'
import { withServer } from '../postgres/server.mjs'

const TASKS = 60
const RETRIES = 30

/** Milliseconds from each enqueue, which says when it began, until the handler starts. */
async function delays(started, enqueue) {
  const all = []
  for (let n = 0; n < TASKS; n++) {
    await sleep(20 + Math.random() * 20)
    const start = new Promise(resolve => started.set(n, resolve))
    const beganAt = await enqueue(n)
    all.push((await start) - beganAt)
  }
  return all
}

async function measure(url) {
  const started = new Map()
  const dueAt = new Map()
  const late = []
  const record = defineTask('record', { handler: n => started.get(n)(monotonicMs()) })
  const retried = defineTask('retried', {
    policy: { attempts: 2, backoff: { kind: 'fixed', base: 100 }, jitter: 'none' },
    handler: (_payload, { attempt, id }) => {
      if (attempt === 2) return void late.push(monotonicMs() - dueAt.get(id))
      dueAt.set(id, monotonicMs() + 100)
      throw new Error('down')
    },
  })
  const store = await open(url)
  const elsewhere = await enqueuerApart(url)
  const queue = new TaskQueue(store)
  const worker = new Worker(store, { tasks: [record, retried] })
  await worker.start()

  const here = await delays(started, async n => {
    const beganAt = monotonicMs()
    await queue.enqueue(record, n)
    return beganAt
  })
  const there = await delays(started, n => elsewhere.enqueue(n))
  for (let n = 0; n < RETRIES; n++) await queue.enqueue(retried, n)
  await sleep(1000)

  const before = process.cpuUsage()
  await sleep(4000)
  const { user, system } = process.cpuUsage(before)
  await worker.stop()
  await elsewhere.close()
  await store.close()
  return { here, there, late, idle: (user + system) / 4_000_000 }
}

const figure = (title, values, max) => ({
  title,
  columns: [{ key: 'ms', head: 'median ms', digits: 1 }],
  rows: [{ name: 'redrive', ms: median(values) }],
  target: { row: 'redrive', key: 'ms', max },
})

const { here, there, late, idle } = await withServer(async server => measure(await server.createDatabase()))
console.log(
  JSON.stringify([
    figure('New work on PostgreSQL, enqueued in the same process, until it starts on an idle worker', here, 50),
    figure('New work on PostgreSQL, enqueued in another process, until it starts on an idle worker', there, 50),
    figure('A retry on PostgreSQL, from its due time until it starts', late, 100),
    {
      title: 'An idle worker on PostgreSQL',
      columns: [{ key: 'share', head: 'share of a core', digits: 3 }],
      rows: [{ name: 'redrive', share: idle }],
    },
  ]),
)
