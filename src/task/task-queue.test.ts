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

it.each(['10/03/2030', '2030-03-10T08:00:00', 'tomorrow'])(
  'refuses to read %s in the zone of the machine',
  async text => {
    const queue = new TaskQueue(new MemoryStore())
    const remind = defineTask('remind', { handler: () => {} })
    for (const option of ['runAt', 'submittedAt']) {
      await expect(queue.enqueue(remind, null, { [option]: text })).rejects.toMatchObject({
        option,
        message: `'${option}' must be a date, milliseconds since the epoch, or ISO text with a time zone, such as 2030-03-10T08:00:00Z, got '${text}'.`,
      })
    }
  },
)
