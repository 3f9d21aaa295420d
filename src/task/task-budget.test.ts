import { expect, it } from 'vitest'
import { OptionError, RetryableError } from '../policy/index.js'
import { MemoryStore } from '../store/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { fakeClock } from '../testing/index.js'
import { declareTask, defineTask, TaskQueue, Worker } from './index.js'

const failures = { share: 0.5, minAttempts: 10, window: '1m', hold: '30s' } as const

function setUp() {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const events: WorkEvent[] = []
  const calls = { count: 0 }
  const service = { isUp: false }
  const charge = defineTask('charge', {
    policy: { attempts: 3, backoff: { kind: 'fixed', base: '1s' } },
    budget: { failures },
    handler: (_: null) => {
      calls.count++
      if (!service.isUp) throw new RetryableError('down', { code: 'http_503' })
    },
  })
  const sink = (event: WorkEvent) => {
    if (event.type.startsWith('gate')) events.push(event)
  }
  const worker = new Worker(store, { tasks: [charge], clock, sink, concurrency: 5, name: 'w' })
  return { clock, store, queue: new TaskQueue(store, { clock }), charge, worker, events, calls, service }
}

it('of a task stops it during an outage, and lets it run again afterwards', async () => {
  const { clock, store, queue, charge, worker, events, calls, service } = setUp()
  await worker.start()
  await queue.enqueueMany(
    charge,
    Array.from({ length: 100 }, () => ({ payload: null })),
  )
  await clock.advance('5m')
  // Ten open the gate, five were running, and four probes have failed: after 30 s, 1 min, 2 min.
  expect(calls.count).toBeLessThanOrEqual(10 + 5 + 4)
  // Probes are attempts: the first task in line has used up its three.
  expect(await store.count({})).toMatchObject({ waiting: 99, dead: 1 })
  expect(events[0]).toMatchObject({ type: 'gate_opened', taskKind: 'charge', code: 'http_503', holds: 1 })
  expect(events.map(({ type }) => type)).toEqual(['gate_opened', 'gate_opened', 'gate_opened', 'gate_opened'])

  service.isUp = true
  await clock.advance('10m')
  expect(await store.count({})).toMatchObject({ succeeded: 99 })
  await worker.stop()
})

it('of a task is declared when the worker starts, and leaves that of an operator alone', async () => {
  const { store, worker } = setUp()
  await worker.start()
  expect(await store.budgets.list()).toMatchObject([
    { kind: 'charge', failures: { share: 0.5, minAttempts: 10, windowMs: 60_000, holdMs: 30_000 } },
  ])
  await store.budgets.set({ kind: 'charge' }, { failures: { share: 0.9 } })
  await worker.stop()
  const { charge } = setUp()
  const next = new Worker(store, { tasks: [charge] })
  await next.start()
  expect(await store.budgets.list()).toMatchObject([{ failures: { share: 0.9 } }])
  await next.stop()
})

it.each([
  [{ failures: { share: 2 } }, "'failures.share' must be above 0 and below 1"],
  [{ failures: { share: 0.5, window: '1s' } }, "'failures.windowMs' must be a whole number from 10000"],
  [{ failures: { share: 0.5, window: 'soon' } }, "'budget.failures.window' must be a duration"],
  [{ failures: { share: 0.5, holds: '1s' } }, "Did you mean 'hold'?"],
  [{ retries: { share: 2 } }, "'retries.share' must be above 0 and at most 1"],
  [{ retries: { share: 0.2, window: '5s' } }, "'retries.windowMs' must be a whole number from 10000"],
  [{ retries: { share: 0.2, floor: 0 } }, 'at least one retry per window'],
  [{ retries: { share: 0.2, minPerSecond: 1 } }, "takes no 'minPerSecond', only share, window, floor"],
  [{ cost: { tokens: 0 } }, "'cost' of a budget needs amounts from"],
  [{ cost: { tokens: 1 }, costWindow: '1s' }, "'cost.windowMs' must be a whole number from 60000"],
  [{ costWindow: '1h' }, "'budget.costWindow' of the task 'charge' needs 'budget.cost'"],
  [{}, 'A budget needs `failures`, `retries` or `cost`'],
])('of a task must be right: %j', (budget, message) => {
  const declare = () => declareTask('charge', { budget: budget as never })
  expect(declare).toThrow(OptionError)
  expect(declare).toThrow(message)
})

it('of retries lets a share of them through, and the rest at the floor', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store, { clock })
  const calls: number[] = []
  const sync = defineTask('sync', {
    policy: { attempts: 3, backoff: { kind: 'fixed', base: '1s' } },
    budget: { retries: { share: 0.1, window: '1m', floor: 0.5 } },
    handler: (_: null) => {
      calls.push(clock.now())
      throw new RetryableError('down', { code: 'http_503' })
    },
  })
  const worker = new Worker(store, { tasks: [sync], clock, concurrency: 200, name: 'w' })
  await worker.start()
  await queue.enqueueMany(
    sync,
    Array.from({ length: 200 }, () => ({ payload: null })),
  )
  await clock.advance('50s')
  // A tenth of 200 is less than 0.5 per second for a minute, which comes evenly: 5 per step of ten seconds.
  expect(calls.length).toBeGreaterThanOrEqual(200 + 20)
  expect(calls.length).toBeLessThanOrEqual(200 + 30)
  expect((await store.budgets.list())[0]?.retries).toMatchObject({
    share: 0.1,
    windowMs: 60_000,
    floor: 0.5,
    first: 200,
  })
  await worker.stop()
})

it('of cost holds the kind until the next window before it has spent too much', async () => {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store, { clock })
  let tokens = 0
  const ask = defineTask('ask', {
    budget: { cost: { tokens: 1000 }, costWindow: '1h' },
    handler: async (_: null, { used }) => {
      tokens += 90
      used({ tokens: 90 })
    },
  })
  const worker = new Worker(store, { tasks: [ask], clock, concurrency: 20, name: 'w' })
  await worker.start()
  await queue.enqueueMany(
    ask,
    Array.from({ length: 30 }, () => ({ payload: null })),
  )
  await clock.advance('1m')
  expect(tokens).toBe(990)
  expect((await store.budgets.list())[0]?.cost).toMatchObject({ amounts: { tokens: 1000 }, isSpent: true })
  await clock.advance('1h')
  expect(tokens).toBe(2 * 990)
  await clock.advance('1h')
  expect(tokens).toBe(30 * 90)
  await worker.stop()
})
