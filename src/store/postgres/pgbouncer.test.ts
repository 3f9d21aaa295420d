import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { checkInvariants } from '../../../test/conformance/invariants.js'
import { freshDatabase } from '../../../test/services/fresh-database.js'
import { startPgbouncer } from '../../../test/services/pgbouncer.js'
import { defineTask, TaskQueue, Worker } from '../../task/index.js'
import { openPostgres } from './internal.js'

let direct: string
let bouncer: Awaited<ReturnType<typeof startPgbouncer>>
beforeAll(async () => {
  direct = await freshDatabase()
  bouncer = await startPgbouncer(direct)
}, 120_000)
afterAll(() => bouncer.close())

it('works behind PgBouncer in transaction mode, and listens around it', async () => {
  const store = await openPostgres(bouncer.url, { listen: direct })
  const there = await openPostgres(bouncer.url, { listen: false })
  const client = new pg.Client(bouncer.url)
  await client.connect()
  await client.query('CREATE TABLE effects (id int)')
  const task = defineTask('work', {
    policy: { backoff: 'none', jitter: 'none' },
    handler: async ({ id }: { id: number }, task) => {
      if (id % 5 === 0 && task.attempt === 1) throw new Error('down')
      await task.once(`effect-${id}`, (tx: pg.PoolClient) =>
        tx.query('INSERT INTO effects VALUES ($1)', [id]).then(() => {}),
      )
    },
  })
  const workers = [store, store, there].map(store => new Worker(store, { tasks: [task], concurrency: 20 }))
  for (const worker of workers) await worker.start()

  const ids = Array.from({ length: 200 }, (_, id) => id)
  const queue = new TaskQueue(there)
  const enqueued = await Promise.all(ids.map(id => queue.enqueue(task, { id })))
  await client.query('BEGIN')
  await store.enqueueIn(client, [{ kind: 'work', payload: '{"id":200}' }])
  await client.query('COMMIT')
  await Promise.all(enqueued.map(({ id }) => queue.result(id)))
  await expect.poll(async () => (await store.count({})).succeeded, { timeout: 20_000 }).toBe(201)
  expect((await client.query('SELECT count(*)::int AS all, count(DISTINCT id)::int AS ids FROM effects')).rows).toEqual(
    [{ all: 201, ids: 201 }],
  )

  for (const worker of workers) await worker.stop()
  await checkInvariants(store)
  await client.end()
  await store.close()
  await there.close()
}, 60_000)
