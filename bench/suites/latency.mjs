// How soon an idle worker starts new work, and how soon after its due time a retry starts.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqlite } from '../../dist/store/sqlite/index.js'
import { defineTask, TaskQueue, Worker } from '../../dist/task/index.js'

const TASKS = 60
const folder = mkdtempSync(join(tmpdir(), 'redrive-bench-'))
const path = join(folder, 'tasks.db')
const store = await openSqlite(path)
// Another connection to the same file stands for another process: nothing but the file connects the two.
const elsewhere = await openSqlite(path)
const idleCpu = []

const started = new Map()
const late = []
const record = defineTask('record', { handler: n => void started.get(n)?.(performance.now()) })
const retried = defineTask('retried', {
  policy: { attempts: 2, backoff: { kind: 'fixed', base: 100 }, jitter: 'none' },
  handler: (_payload, { attempt, id }) => {
    if (attempt === 1) {
      dueAt.set(id, performance.now() + 100)
      throw new Error('down')
    }
    late.push(performance.now() - dueAt.get(id))
  },
})
const dueAt = new Map()
const worker = new Worker(store, { tasks: [record, retried] })
await worker.start()

async function delays(queue) {
  const all = []
  for (let n = 0; n < TASKS; n++) {
    await new Promise(resolve => setTimeout(resolve, 20 + Math.random() * 20))
    const start = new Promise(resolve => started.set(n, resolve))
    const enqueuedAt = performance.now()
    await queue.enqueue(record, n)
    all.push((await start) - enqueuedAt)
  }
  return all
}

const here = await delays(new TaskQueue(store))
const there = await delays(new TaskQueue(elsewhere))
for (let n = 0; n < 30; n++) await new TaskQueue(store).enqueue(retried, n)
await new Promise(resolve => setTimeout(resolve, 1000))

const before = process.cpuUsage()
await new Promise(resolve => setTimeout(resolve, 2000))
const idle = process.cpuUsage(before)
idleCpu.push((idle.user + idle.system) / 2_000_000)

await worker.stop()
await store.close()
await elsewhere.close()
rmSync(folder, { recursive: true })

const median = values => values.sort((a, b) => a - b)[values.length >> 1]
const columns = [{ key: 'ms', head: 'median ms', digits: 1 }]
const of = (title, values, max) => ({
  title,
  columns,
  rows: [{ name: 'redrive', ms: median(values) }],
  target: { row: 'redrive', key: 'ms', max },
})
console.log(
  JSON.stringify([
    of('New work, enqueued in the same process, until it starts on an idle worker', here, 50),
    of('New work, enqueued elsewhere, until it starts on an idle worker', there, 50),
    of('A retry, from its due time until it starts', late, 100),
    {
      title: 'An idle worker',
      columns: [{ key: 'share', head: 'share of a core', digits: 3 }],
      rows: [{ name: 'redrive', share: idleCpu[0] }],
    },
  ]),
)
