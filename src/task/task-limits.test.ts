import { expect, it } from 'vitest'
import { OptionError, RateLimitedError } from '../policy/index.js'
import { MemoryStore } from '../store/index.js'
import { fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { declareTask, defineTask, TaskQueue, Worker } from './index.js'

function setUp() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  return { clock, store, queue: new TaskQueue(store, { clock }) }
}

it('of a task bound all its lanes together, over all workers, beside the limits of each lane', async () => {
  const { clock, store, queue } = setUp()
  const running: string[] = []
  const peaks = { all: 0, tenant: 0 }
  const ask = defineTask('ask', {
    limits: { concurrency: 3 },
    handler: async (_: null, { key }) => {
      running.push(key)
      peaks.all = Math.max(peaks.all, running.length)
      peaks.tenant = Math.max(peaks.tenant, running.filter(other => other === key).length)
      await sleep(1000, clock)
      running.splice(running.indexOf(key), 1)
    },
  })
  await store.limit({ kind: 'ask' }, { concurrency: 2 })
  await queue.enqueueMany(
    ask,
    ['a', 'a', 'a', 'a', 'b', 'b', 'b', 'b', 'c', 'c'].map(key => ({ payload: null, key })),
  )
  const workers = [1, 2].map(() => new Worker(store, { tasks: [ask], clock }))
  for (const worker of workers) await worker.start()
  await clock.advance('1m')
  expect(await store.count({})).toMatchObject({ succeeded: 10 })
  expect(peaks).toEqual({ all: 3, tenant: 2 })
  for (const worker of workers) await worker.stop()
})

it('of a task are rates too, of which each task takes its cost', async () => {
  const { clock, queue, store } = setUp()
  const calls: number[] = []
  const ask = declareTask<number>('ask', { limits: { rates: { tokens: { perMinute: 60_000, burst: 1000 } } } })
  const worker = new Worker(store, { tasks: [defineTask(ask, { handler: n => void calls.push(n) })], clock })
  await worker.start()
  await queue.enqueueMany(
    ask,
    [1, 2, 3, 4].map(payload => ({ payload, key: `tenant-${payload}`, cost: { tokens: 500 } })),
  )
  await clock.advance(0)
  expect(calls).toEqual([1, 2])
  await clock.advance('1s')
  expect(calls).toEqual([1, 2, 3, 4])
  await worker.stop()
})

it('of a task share what a rate limit says: one tenant that is refused holds all', async () => {
  const { clock, queue, store } = setUp()
  const calls: string[] = []
  const ask = defineTask('ask', {
    limits: {},
    handler: (_: null, { key }) => {
      calls.push(key)
      if (calls.length === 1) throw new RateLimitedError('Slow down', { retryAfterMs: 30_000 })
    },
  })
  const worker = new Worker(store, { tasks: [ask], concurrency: 1, clock })
  await worker.start()
  await queue.enqueueMany(
    ask,
    ['a', 'b', 'c'].map(key => ({ payload: null, key })),
  )
  await clock.advance('29s')
  expect(calls).toEqual(['a'])
  await clock.advance('10s')
  expect(calls.slice(1).sort()).toEqual(['a', 'b', 'c'])
  await worker.stop()
})

it('that an operator sets hold until the code has others', async () => {
  const { clock, store } = setUp()
  const start = async (concurrency: number) => {
    const worker = new Worker(store, { tasks: [defineTask('ask', { limits: { concurrency }, handler() {} })], clock })
    await worker.start()
    await worker.stop()
    const [lane] = await store.lanes({ kind: 'ask' })
    return lane?.shared?.limits.concurrency
  }
  await store.enqueue([{ kind: 'ask', payload: 'null', runAt: 1e15 }])
  expect(await start(5)).toBe(5)
  await store.limit({ kind: 'ask' }, { isShared: true, concurrency: 1 }, { who: 'ann' })
  expect(await start(5)).toBe(1)
  expect(await start(6)).toBe(6)
})

it('of each quota hold for its tasks, and are declared by the worker', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const running: string[] = []
  const sync = defineTask('sync', {
    limits: { quota: { concurrency: 1 } },
    handler: async (_: null, { key }) => {
      running.push(key)
      await sleep(1000, clock)
    },
  })
  await queue.enqueueMany(sync, [
    { payload: null, key: 'a1', quota: 'a' },
    { payload: null, key: 'a2', quota: 'a' },
    { payload: null, key: 'b1', quota: 'b' },
  ])
  await expect(queue.enqueue(sync, null, { quota: 'a' })).rejects.toThrow("'quota' needs a 'key'")
  const worker = new Worker(store, { tasks: [sync], clock })
  await worker.start()
  await clock.advance(10)
  expect(running.toSorted()).toEqual(['a1', 'b1'])
  await clock.advance(5000)
  expect(running.toSorted()).toEqual(['a1', 'a2', 'b1'])
  await worker.stop()
})

it.each([
  [{ concurrency: 1.5 }, "'concurrency' must be a whole number"],
  [{ concurency: 1 }, "Did you mean 'concurrency'?"],
  [{ rates: { calls: { perSecond: 0 } } }, "The rate 'calls' of the task 'ask' needs one of 'perSecond'"],
  [{ quota: { concurency: 1 } }, "Did you mean 'concurrency'?"],
  [{ quota: { concurrency: -1 } }, "'concurrency' must be a whole number"],
  [{ quota: { concurrency: 1 }, concurrency: 5 }, 'for all its tasks together or for each quota, not for both'],
])('that cannot be are refused: %j', (limits, message) => {
  expect(() => declareTask('ask', { limits: limits as object })).toThrow(OptionError)
  expect(() => declareTask('ask', { limits: limits as object })).toThrow(message)
})
