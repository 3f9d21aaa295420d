// BullMQ on its PostgreSQL backend. The fastest of 10, 50, 100 and 200 at once, on 10 to 60 connections.
import { createPostgresBackend, Queue, runMigrations, Worker } from 'bullmq'
import pg from 'pg'

const connectTo = url => ({ connection: { connectionString: url, max: 20 } })

export async function open(url) {
  const client = new pg.Client(url)
  await client.connect()
  await runMigrations(client)
  await client.end()
  const queue = new Queue('work', connectTo(url), createPostgresBackend)
  return { url, queue, close: () => queue.close() }
}

export async function enqueue({ queue }, count) {
  await queue.addBulk(Array.from({ length: count }, () => ({ name: 'work', data: { n: 1 } })))
}

/** Resolves when all are completed, with what ends the worker. */
export async function drain({ url }, count) {
  const options = { ...connectTo(url), concurrency: 50, removeOnComplete: { count: 0 } }
  const worker = new Worker('work', async () => {}, options, createPostgresBackend)
  await new Promise(resolve => {
    let left = count
    worker.on('completed', () => {
      if (--left === 0) resolve()
    })
  })
  return () => worker.close()
}
