import { expect, it } from 'vitest'
import { MemoryStore } from '../store/index.js'
import { fakeClock } from '../testing/index.js'
import { defineTask, storeAudit, TaskQueue, Worker } from './index.js'

it('keeps the audit of tasks in their store: a record for each retry, and one for giving up', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const task = defineTask('charge', {
    policy: { attempts: 3, backoff: { base: '1s' } },
    handler: () => Promise.reject(new Error('down')),
  })
  await new TaskQueue(store).enqueue(task, null, { key: 'tenant-1' })
  const worker = new Worker(store, { tasks: [task], clock, sink: storeAudit(store) })
  await worker.start()
  await clock.advance('1m')
  await worker.stop()

  const { items } = await store.audit.page({ limit: 10 })
  const records = items.map(item => JSON.parse(item))
  expect(records.map(({ event_type }) => event_type)).toEqual(['retry_attempt', 'retry_attempt', 'retry_exhausted'])
  expect(records[0]).toMatchObject({ operation: 'charge', tenant_id: 'tenant-1', attempt_number: 1, max_attempts: 3 })
})
