import { expect, it } from 'vitest'
import { MemoryStore } from '../store/index.js'
import { defineTask } from './define-task.js'
import { TaskQueue } from './task-queue.js'

it('a cancellation is on record with who asked, and why', async () => {
  const store = new MemoryStore()
  const queue = new TaskQueue(store)
  const { id } = await queue.enqueue(defineTask('remind', { handler: () => {} }), null)
  expect(await queue.cancel(id, { who: 'ada', why: 'paid' })).toEqual([id])
  const { items } = await store.audit.page({ limit: 10 })
  expect(items.map(item => JSON.parse(item))).toMatchObject([{ who: 'ada', why: 'paid', ids: [id] }])
})
