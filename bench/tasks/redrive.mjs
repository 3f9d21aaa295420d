import { openSqlite } from '../../dist/store/sqlite/index.js'
import { defineTask, TaskQueue, Worker } from '../../dist/task/index.js'

export const open = path => openSqlite(path)

const items = count => Array.from({ length: count }, () => ({ payload: { n: 1 } }))
const work = defineTask('work', { handler: () => {} })

export async function enqueue(store, count) {
  await new TaskQueue(store).enqueueMany(work, items(count))
}

export async function enqueueInChunks(store, count, chunk) {
  for (let left = count; left > 0; left -= chunk) await enqueue(store, Math.min(left, chunk))
}

export async function enqueueConcurrently(store, count) {
  const queue = new TaskQueue(store)
  await Promise.all(items(count).map(({ payload }) => queue.enqueue(work, payload)))
}

export async function enqueueOneByOne(store, count) {
  const queue = new TaskQueue(store)
  for (const { payload } of items(count)) await queue.enqueue(work, payload)
}

/** Drains `count` tasks; every `failing`th fails once, and is retried without a delay. */
export async function drain(store, count, failing = 0, message = () => 'down') {
  let left = count
  let seen = 0
  let finish
  const drained = new Promise(resolve => {
    finish = resolve
  })
  const task = defineTask('work', {
    policy: { backoff: 'none', jitter: 'none' },
    handler: (_payload, { attempt }) => {
      if (failing > 0 && attempt === 1 && ++seen % failing === 0) throw new Error(message(seen))
      if (--left === 0) finish()
    },
  })
  const worker = new Worker(store, { tasks: [task], concurrency: 500 })
  await worker.start()
  await drained
  await worker.stop()
}
