// How soon an idle worker starts new work, how soon after its due time a retry starts, and what idling costs.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineTask, TaskQueue, Worker } from '../../dist/task/index.js'
import { median } from '../interleave.mjs'

const TASKS = 60
const RETRIES = 30
const RETRY_AFTER_MS = 100

/** The clock that all processes of a machine share, in milliseconds. */
const monotonicMs = () => Number(process.hrtime.bigint()) / 1e6

/** The task that is enqueued here and elsewhere. Its handler runs in this process alone. */
const record = defineTask('record', { handler: n => started.get(n)?.(monotonicMs()) })
const started = new Map()

/** Enqueues a number, and returns when it began to. */
export async function enqueueRecord(store, n) {
  const beganAt = monotonicMs()
  await new TaskQueue(store).enqueue(record, n)
  return beganAt
}

/** Measures a store. `enqueueElsewhere` does what `enqueueRecord` does, over another connection. */
export async function measureLatency(store, enqueueElsewhere, idleMs) {
  const dueAt = new Map()
  const late = []
  const retried = defineTask('retried', {
    policy: { attempts: 2, backoff: { kind: 'fixed', base: RETRY_AFTER_MS }, jitter: 'none' },
    handler: (_payload, { attempt, id }) => {
      if (attempt === 2) return void late.push(monotonicMs() - dueAt.get(id))
      dueAt.set(id, monotonicMs() + RETRY_AFTER_MS)
      throw new Error('down')
    },
  })
  const worker = new Worker(store, { tasks: [record, retried] })
  await worker.start()

  const here = await delays(n => enqueueRecord(store, n))
  const there = await delays(enqueueElsewhere)
  const queue = new TaskQueue(store)
  for (let n = 0; n < RETRIES; n++) await queue.enqueue(retried, n)
  await sleep(1000)

  const before = process.cpuUsage()
  await sleep(idleMs)
  const { user, system } = process.cpuUsage(before)
  await worker.stop()
  return { here, there, late, idle: (user + system) / 1000 / idleMs }
}

/**
 * Starts a worker on a store that has one task waiting. Returns the milliseconds until the task starts, once the worker says
 * that it has started, and of a stop right after that.
 */
export async function measureFirst(store, n) {
  const worker = new Worker(store, { tasks: [record] })
  const start = new Promise(resolve => started.set(n, resolve))
  await worker.start()
  const ready = monotonicMs()
  const claimMs = (await start) - ready
  const stoppedAt = monotonicMs()
  await worker.stop()
  return { claimMs, stopMs: monotonicMs() - stoppedAt }
}

/** Milliseconds from each enqueue until the handler starts. */
async function delays(enqueue) {
  const all = []
  for (let n = 0; n < TASKS; n++) {
    await sleep(20 + Math.random() * 20)
    const start = new Promise(resolve => started.set(n, resolve))
    const beganAt = await enqueue(n)
    all.push((await start) - beganAt)
  }
  return all
}

/** The tables of what was measured; `on` names the database in their titles. */
export function latencyFigures({ here, there, late, idle }, { on = '', elsewhere }) {
  return [
    figure(`New work${on}, enqueued in the same process, until it starts on an idle worker`, here, 50),
    figure(`New work${on}, enqueued ${elsewhere}, until it starts on an idle worker`, there, 50),
    figure(`A retry${on}, from its due time until it starts`, late, 100),
    {
      title: `An idle worker${on}`,
      columns: [{ key: 'share', head: 'share of a core', digits: 3 }],
      rows: [{ name: 'redrive', share: idle }],
    },
  ]
}

export function figure(title, values, max) {
  return {
    title,
    columns: [{ key: 'ms', head: 'median ms', digits: 1 }],
    rows: [{ name: 'redrive', ms: median(values) }],
    target: { row: 'redrive', key: 'ms', max },
  }
}
