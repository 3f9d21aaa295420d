import { expect, it } from 'vitest'
import { MemoryStore } from '../store/index.js'
import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { defineTask, TaskQueue, Worker } from './index.js'

/** A worker whose slots are taken by tasks that hang, and the quick tasks that have succeeded so far. */
async function storm(reserve?: Readonly<Record<string, number>>) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  let [hanging, most] = [0, 0]
  const hang = defineTask('hang', {
    policy: { timeout: '30s' },
    handler: async (_: null, { signal }) => {
      most = Math.max(most, ++hanging)
      await sleep(3_600_000, clock, signal).finally(() => hanging--)
    },
  })
  const quick = defineTask('quick', { handler: () => sleep(100, clock) })
  const worker = new Worker(store, { tasks: [hang, quick], clock, concurrency: 10, reserve })
  await queue.enqueueMany(
    hang,
    Array.from({ length: 50 }, () => ({ payload: null })),
  )
  await worker.start()
  await clock.advance(1)
  await queue.enqueueMany(
    quick,
    Array.from({ length: 100 }, () => ({ payload: undefined })),
  )
  const succeeded = async () => (await store.count({})).succeeded
  return { clock, succeeded, most: () => most }
}

it('without a reserve, tasks that hang take all slots of a worker', async () => {
  const { clock, succeeded, most } = await storm()
  await clock.advance('20s')
  expect([await succeeded(), most()]).toEqual([0, 10])
})

it('a kind always gets the slots that are reserved for it, and no other kind does', async () => {
  const { clock, succeeded, most } = await storm({ quick: 2 })
  await clock.advance('10s')
  expect([await succeeded(), most()]).toEqual([100, 8])
})

it('a kind uses the other slots too, if they are free', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  let [running, most] = [0, 0]
  const quick = defineTask('quick', {
    handler: async () => {
      most = Math.max(most, ++running)
      await sleep(1000, clock).finally(() => running--)
    },
  })
  const worker = new Worker(store, { tasks: [quick], clock, concurrency: 10, reserve: { quick: 2 } })
  const tasks = Array.from({ length: 30 }, () => ({ payload: undefined }))
  await new TaskQueue(store).enqueueMany(quick, tasks)
  await worker.start()
  await clock.advance('10s')
  expect([most, (await store.count({})).succeeded]).toEqual([10, 30])
})

it.each([
  [{ other: 1 }, "'reserve' names the kind 'other', which is no task of this worker."],
  [{ quick: 0 }, "'reserve' of 'quick' must be a whole number, 1 or more, got 0."],
  [{ quick: 11 }, "'reserve' asks for 11 slots, but 'concurrency' is 10."],
  [{ quick: 10 }, "'reserve' leaves no slot for tasks of the kind 'slow'."],
])('a reserve that cannot be is refused: %j', (reserve, message) => {
  const tasks = ['quick', 'slow'].map(kind => defineTask(kind, { handler: () => {} }))
  expect(() => new Worker(new MemoryStore(), { tasks, reserve })).toThrow(message)
})
