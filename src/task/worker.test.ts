import { hostname } from 'node:os'
import { describe, expect, it } from 'vitest'
import { Engine } from '../engine/engine.js'
import type { WorkKind } from '../engine/work-kind.js'
import { IdempotencyMismatchError } from '../idempotency/index.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { StaleFenceError, StoreUnavailableError } from '../store/index.js'
import { MemoryStore } from '../store/internal.js'
import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import {
  defineTask,
  later,
  PayloadError,
  type StandardSchema,
  skip,
  type TaskContext,
  type TaskDefinition,
  TaskQueue,
  Worker,
  type WorkerOptions,
} from './index.js'
import { taskKind } from './task-kind.js'

/** A store, a queue and a worker on a clock that the test moves. */
async function bench(tasks: readonly TaskDefinition[], options: Partial<WorkerOptions> = {}) {
  const clock = fakeClock()
  const store = new MemoryStore({ clock })
  const queue = new TaskQueue(store)
  const worker = new Worker(store, { tasks, clock, ...options })
  return { clock, store, queue, worker, start: () => worker.start() }
}

const settle = (clock: FakeClock) => clock.advance(0)

/** A worker starts tasks and dies, and another one notices. */
async function die(store: MemoryStore, clock: FakeClock, kind: string, limit = 1): Promise<void> {
  const claim = () => store.claim({ worker: 'dying', leaseMs: 1000, rooms: [{ kinds: [kind] }], limit, isIdle: true })
  const undecided = (await claim()).tasks.filter(({ isUndecided }) => isUndecided)
  const outcome = { type: 'retry', delayMs: 0, isBackoff: false } as const
  await store.settle(undecided.map(({ id, token }) => ({ id, token, outcome })))
  if (undecided.length > 0) await claim()
  await clock.advance(1000)
  await store.heartbeat({ worker: 'another', leaseMs: 1000 })
}

describe('a mistake that no type has caught', () => {
  const work = defineTask('work', { handler: () => {} })

  it('is refused at once: a task without a handler, a name in the place of a task', async () => {
    expect(() => defineTask('work', JSON.parse('{}'))).toThrow("The task 'work' has no handler.")
    const { queue } = await bench([])
    await expect(queue.enqueue(JSON.parse('"work"'), {})).rejects.toThrow(
      'A task is what declareTask() or defineTask() returns.',
    )
  })

  it('is refused at once: two tasks of one kind in one worker, of which only one would run', async () => {
    await expect(bench([work, defineTask('work', { handler: () => {} })])).rejects.toThrow(/have the kind 'work'/)
    await expect(bench([work, work])).resolves.toBeDefined()
  })
})

describe('a worker', () => {
  it('runs what is enqueued before and after its start', async () => {
    const greeted: string[] = []
    const greet = defineTask('greet', { handler: ({ name }: { name: string }) => void greeted.push(name) })
    const { clock, queue, start } = await bench([greet])
    await queue.enqueue(greet, { name: 'Ada' })
    await start()
    await settle(clock)
    await queue.enqueue(greet, { name: 'Grace' })
    await settle(clock)
    expect(greeted).toEqual(['Ada', 'Grace'])
  })

  it('reports its release, its kinds and its machine, and each attempt keeps the release', async () => {
    const flaky = defineTask('flaky', {
      policy: { backoff: { base: '1s' } },
      handler: (_: unknown, { attempt }: TaskContext) => {
        if (attempt === 1) throw new Error('not yet')
      },
    })
    const { clock, store, queue, worker, start } = await bench([flaky], { release: '1.8.0', categories: [''] })
    const { id } = await queue.enqueue(flaky, {})
    await start()
    const report = { release: '1.8.0', kinds: ['flaky'], categories: [''], host: hostname() }
    expect(await store.workers()).toMatchObject([{ name: worker.name, ...report }])
    await clock.advance(2000)
    expect(await store.ledger(id)).toMatchObject([
      { outcome: 'retry', release: '1.8.0' },
      { outcome: 'succeeded', release: '1.8.0' },
    ])
    await worker.stop()
    expect(await store.workers()).toEqual([])
  })

  it('keeps the result of a task that succeeded, and its attempt is on record', async () => {
    const add = defineTask('add', { handler: ([a, b]: [number, number]) => a + b })
    const { clock, store, queue, start } = await bench([add])
    const { id } = await queue.enqueue(add, [2, 3])
    await start()
    await settle(clock)
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: 5, attempts: 0 })
    expect(await store.ledger(id)).toMatchObject([{ attempt: 1, outcome: 'succeeded' }])
  })

  it('retries after 60, 120, 240, 480, 960, 1920 and 3600 seconds, then leaves a dead letter', async () => {
    const starts: number[] = []
    const { clock, store, queue, start } = await bench([])
    const flaky = defineTask('flaky', {
      handler: () => {
        starts.push(clock.monotonic() / 1000)
        throw new Error('down')
      },
    })
    const worker = new Worker(store, { tasks: [flaky], clock, lease: '1d' })
    const { id } = await queue.enqueue(flaky, null)
    await worker.start()
    await start()
    await clock.advance('3h')
    const waits = starts.map((at, i) => at - (starts[i - 1] ?? 0))
    expect(waits).toEqual([0, 60, 120, 240, 480, 960, 1920, 3600])
    expect(await queue.get(id)).toMatchObject({
      status: 'dead',
      reason: 'attempts_exhausted',
      errorClass: 'retryable',
      attempts: 8,
    })
    const letter = await queue.deadLetter(id)
    expect(letter?.history.map(({ outcome }) => outcome)).toEqual([...Array(7).fill('retry'), 'dead'])
    await worker.stop()
  })

  it('dead-letters a final error at once, and runs it afresh when it is redriven', async () => {
    let isBroken = true
    const charge = defineTask('charge', {
      handler: () => {
        if (isBroken) throw new FinalError('card declined')
        return 'paid'
      },
    })
    const { clock, store, queue, start } = await bench([charge])
    const { id } = await queue.enqueue(charge, null)
    await start()
    await settle(clock)
    expect((await queue.deadLetters()).items).toMatchObject([
      { id, reason: 'final_error', errorMessage: 'FinalError: card declined' },
    ])

    isBroken = false
    expect(await queue.redrive(id, { who: 'ada', why: 'card replaced' })).toEqual([id])
    await settle(clock)
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: 'paid' })
    expect((await store.ledger(id)).map(({ outcome }) => outcome)).toEqual(['dead', 'redriven', 'succeeded'])
  })

  it('holds the lane of a rate limit, at no cost of an attempt to any of its tasks', async () => {
    let isLimited = true
    const calls: string[] = []
    const call = defineTask('call', {
      handler: (name: string) => {
        calls.push(name)
        if (!isLimited) return name
        throw new RateLimitedError('slow down', { retryAfterMs: 30_000 })
      },
    })
    const { clock, queue, start } = await bench([call], { concurrency: 1 })
    const items = ['a', 'b', 'c'].map(payload => ({ payload }))
    const ids = (await queue.enqueueMany(call, items)).map(({ id }) => id)
    await start()
    await clock.advance('29s')
    expect(calls).toEqual(['a'])
    isLimited = false
    await clock.advance('1m')
    expect([...calls].sort()).toEqual(['a', 'a', 'b', 'c'])
    for (const id of ids) expect(await queue.get(id)).toMatchObject({ status: 'succeeded', attempts: 0 })
  })

  it('calls a handler again that asks for later, and ends a task that is skipped, without counting either', async () => {
    const attempts: number[] = []
    const poll = defineTask('poll', {
      handler: (_: null, { attempt }) => (attempts.push(attempt) < 3 ? later('5m') : skip('nothing to do')),
    })
    const { clock, queue, start } = await bench([poll])
    const { id } = await queue.enqueue(poll, null)
    await start()
    await clock.advance('10m')
    expect(attempts).toEqual([1, 1, 1])
    expect(await queue.get(id)).toMatchObject({ status: 'skipped', reason: 'nothing to do', attempts: 0 })
  })

  it('cuts a handler short when its time is up, and ignores what it does later', async () => {
    let reason: unknown
    const hang = defineTask('hang', {
      policy: { attempts: 1, timeout: '10s' },
      handler: (_: null, { signal }) =>
        new Promise<string>(resolve => {
          signal.addEventListener('abort', () => {
            reason = signal.reason
            resolve('late')
          })
        }),
    })
    const { clock, queue, start } = await bench([hang])
    const { id } = await queue.enqueue(hang, null)
    await start()
    await clock.advance('10s')
    expect(reason).toMatchObject({ code: 'timeout' })
    expect(await queue.get(id)).toMatchObject({ status: 'dead', errorCode: 'timeout', result: undefined })
  })

  it('runs no more at once than it may, and the oldest first', async () => {
    let running = 0
    let most = 0
    const order: number[] = []
    const slow = defineTask('slow', {
      handler: async (n: number) => {
        order.push(n)
        most = Math.max(most, ++running)
        await new Promise(resolve => setImmediate(resolve))
        running--
      },
    })
    const { clock, queue, start } = await bench([slow], { concurrency: 3 })
    await queue.enqueueMany(
      slow,
      [3, 1, 2, 0].map(n => ({ payload: n, submittedAt: n + 1 })),
    )
    await start()
    await clock.advance(1)
    expect(most).toBe(3)
    expect(order).toEqual([0, 1, 2, 3])
  })

  it('starts a task after its delay, on the clock of the store, and at a time given as date, number or text', async () => {
    const starts: [number, number][] = []
    const { clock, store, queue } = await bench([])
    const at = defineTask('at', { handler: (n: number) => void starts.push([n, clock.now() - begun]) })
    const begun = clock.now()
    await queue.enqueue(at, 0, { delay: '3s' })
    await queue.enqueue(at, 1, { runAt: new Date(begun + 1000) })
    await queue.enqueue(at, 2, { runAt: begun + 2000 })
    await queue.enqueue(at, 4, { runAt: new Date(begun + 4000).toISOString() })
    await new Worker(store, { tasks: [at], clock }).start()
    await clock.advance('10s')
    expect(starts).toEqual([1, 2, 0, 4].map((n, i) => [n, 1000 * (i + 1)]))
    await expect(queue.enqueue(at, 5, { runAt: 'soon' })).rejects.toThrow(/'runAt' must be a date/)
    await expect(queue.enqueue(at, 5, { runAt: 1e19 })).rejects.toThrow(/'runAt' must be a date/)
    await expect(queue.enqueue(at, 5, { runAt: 1, delay: '1s' })).rejects.toThrow(/not both/)
    // A whole number, and yet no date that anybody could be shown.
    await expect(queue.enqueue(at, 5, { runAt: Number.MAX_SAFE_INTEGER })).rejects.toThrow(/'runAt' must be a date/)
    await expect(queue.enqueue(at, 5, { priority: Infinity })).rejects.toThrow(/'priority' must be a number/)
    await expect(queue.enqueue(at, 5, { delay: '5 minutes' as '5m' })).rejects.toThrow(/'delay' must be a duration/)
  })

  it('refuses a payload that does not fit, and dead-letters a stored one that no longer does', async () => {
    const numbers: StandardSchema<number> = {
      '~standard': {
        version: 1,
        vendor: 'test',
        validate: value =>
          typeof value === 'number' ? { value } : { issues: [{ message: 'not a number', path: ['n'] }] },
      },
    }
    const old = defineTask('count', { handler: (_: unknown) => {} })
    const strict = defineTask('count', { payload: numbers, handler: n => n + 1 })
    const { clock, queue, start } = await bench([strict])
    await expect(queue.enqueue(strict, 'x' as unknown as number)).rejects.toThrow(PayloadError)
    await expect(queue.enqueue(old, { at: 10n })).rejects.toThrow(/bigint/)
    await expect(queue.prepare(strict, 'x' as unknown as number)).rejects.toThrow(PayloadError)
    expect(await queue.prepare(strict, 7, { key: 'acme' })).toMatchObject({ kind: 'count', key: 'acme', payload: '7' })
    const { id } = await queue.enqueue(old, 'x')
    await start()
    await settle(clock)
    expect(await queue.get(id)).toMatchObject({ status: 'dead', errorCode: 'payload_invalid', reason: 'final_error' })
  })

  it('says once that the store does not answer, and once that it does again; what no store takes is no outage', async () => {
    const told: unknown[] = []
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, store, queue, worker, start } = await bench([work], { onOutage: outage => told.push(outage) })
    await start()
    await settle(clock)
    const away = new StoreUnavailableError('the store', 'ECONNREFUSED', { wasSent: false })
    const claim = store.claim.bind(store)
    let failures = 3
    store.claim = request => (failures-- > 0 ? Promise.reject(away) : claim(request))
    const { id } = await queue.enqueue(work, undefined)
    await clock.advance('1m')
    expect(told).toEqual([{ isOver: false, failure: away }, { isOver: true }])
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded' })

    const settled = store.settle.bind(store)
    let refusals = 1
    store.settle = batch => (refusals-- > 0 ? Promise.reject(new FinalError('refused')) : settled(batch))
    await queue.enqueue(work, undefined)
    await clock.advance('1m')
    expect(refusals).toBeLessThan(0)
    expect(told).toHaveLength(2)
    await worker.stop()
  })

  it.each([
    () => {
      throw new Error('a bug')
    },
    () => Promise.reject(new Error('a bug')),
  ])('goes on though whoever is told of an outage fails', async onOutage => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, store, queue, start } = await bench([work], { onOutage })
    const claim = store.claim.bind(store)
    let failures = 3
    store.claim = request => (failures-- > 0 ? Promise.reject(new Error('away')) : claim(request))
    const { id } = await queue.enqueue(work, null)
    await start()
    await clock.advance('1m')
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded' })
  })

  it('says that the store does not take its signs of life, though it has nothing else to ask', async () => {
    const told: unknown[] = []
    const { clock, store, worker, start } = await bench([], { onOutage: outage => told.push(outage) })
    await start()
    const away = new StoreUnavailableError('the store', 'ECONNREFUSED', { wasSent: false })
    const heartbeat = store.heartbeat.bind(store)
    store.heartbeat = () => Promise.reject(away)
    await clock.advance('25s')
    expect(told).toEqual([{ isOver: false, failure: away }])
    store.heartbeat = heartbeat
    await clock.advance('10s')
    expect(told).toEqual([{ isOver: false, failure: away }, { isOver: true }])
    await worker.stop()
  })

  it('that is idle stops and says why when the store refuses its signs of life for good', async () => {
    const { clock, store, worker, start } = await bench([])
    await start()
    const cannot = new FinalError('refused for good')
    const stopped = expect(worker.stopped).rejects.toBe(cannot)
    store.heartbeat = () => Promise.reject(cannot)
    await clock.advance('10s')
    await stopped
    expect(clock.timers).toBe(0)
  })

  it('stops well if the store is away once everything is on record', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, store, queue, start, worker } = await bench([work])
    const { id } = await queue.enqueue(work, null)
    await start()
    await settle(clock)
    store.leave = () => Promise.reject(new StoreUnavailableError('The store', 'it is away', { wasSent: false }))
    await worker.stop()
    await worker.stopped
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded' })
  })

  it('that cannot go on stops and says why, leaves what runs to its lease, and leaves no timer behind', async () => {
    const started: string[] = []
    const cannot = new FinalError('refused for good')
    for (const verb of ['claim', 'settle'] as const) {
      const hang = defineTask('hang', {
        handler: (_: null, { signal }) => {
          started.push(verb)
          return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        },
      })
      const quick = defineTask('quick', { handler: () => {} })
      const { clock, store, queue, worker, start } = await bench([hang, quick])
      const { id } = await queue.enqueue(hang, null)
      await start()
      await settle(clock)
      Object.assign(store, { [verb]: () => Promise.reject(cannot) })
      const stopped = expect(worker.stopped).rejects.toBe(cannot)
      await queue.enqueue(quick, undefined)
      await clock.advance('1m')
      await stopped
      await worker.stop()
      expect(clock.timers).toBe(0)
      expect(await queue.get(id)).toMatchObject({ status: verb === 'claim' ? 'waiting' : 'running' })
    }
    expect(started).toEqual(['claim', 'settle'])
  })

  it('that stops forgets nothing of what the store refused meanwhile', async () => {
    let [end, refusals] = [() => {}, 3]
    const hang = defineTask('hang', { handler: () => new Promise(() => {}) })
    const quick = defineTask('quick', { handler: () => new Promise<void>(resolve => (end = resolve)) })
    const { clock, store, queue, worker, start } = await bench([hang, quick], { grace: '5s' })
    await queue.enqueue(hang, undefined)
    const { id } = await queue.enqueue(quick, undefined)
    await start()
    await settle(clock)
    const taken = store.settle.bind(store)
    store.settle = batch => (refusals-- > 0 ? Promise.reject(new FinalError('refused')) : taken(batch))
    const stopping = worker.stop()
    end()
    await clock.advance('10s')
    await stopping
    expect(refusals).toBeLessThan(0)
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded' })
  })

  it('has stopped once what stops it has', async () => {
    const { worker, start } = await bench([])
    await start()
    const both = [worker.stop(), worker.stop(), worker.stopped]
    expect(await Promise.all(both)).toEqual([undefined, undefined, undefined])
  })

  it('lets running tasks end when it stops, and hands back what does not end in time, uncounted', async () => {
    const finish: (() => void)[] = []
    const slow = defineTask('slow', {
      handler: (_: null, { signal }) => new Promise<void>(resolve => finish.push(resolve)).then(() => signal.aborted),
    })
    const { clock, queue, worker, start } = await bench([slow], { grace: '5s' })
    const [quick, stuck] = await queue.enqueueMany(slow, [{ payload: null }, { payload: null }])
    await start()
    await settle(clock)
    const stopped = worker.stop()
    await clock.advance('1s')
    finish[0]?.()
    await clock.advance('5s')
    await stopped
    expect(await queue.get(quick?.id ?? '')).toMatchObject({ status: 'succeeded' })
    expect(await queue.get(stuck?.id ?? '')).toMatchObject({ status: 'waiting', attempts: 0 })
    expect(clock.timers).toBe(0)
  })

  it('tells a running task that it is cancelled', async () => {
    let reason: unknown
    let end = () => {}
    const slow = defineTask('slow', {
      handler: (_: null, { signal }) =>
        new Promise<void>(resolve => {
          end = resolve
          signal.addEventListener('abort', () => {
            reason = signal.reason
          })
        }),
    })
    const { clock, queue, start } = await bench([slow])
    const { id } = await queue.enqueue(slow, null)
    await start()
    await settle(clock)
    expect(await queue.cancel(id)).toEqual([id])
    await settle(clock)
    expect(reason).toMatchObject({ code: 'task_cancelled' })
    end()
    await settle(clock)
    expect(await queue.get(id)).toMatchObject({ status: 'cancelled', result: undefined })
  })

  it('takes over from a worker that died: a loss costs no attempt, and the tasks run side by side', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const queue = new TaskQueue(store)
    const attempts: number[][] = []
    const running = new Set<string>()
    let together = 0
    const work = defineTask('work', {
      policy: { attempts: 1 },
      handler: async (_: null, { id, attempt, losses }) => {
        running.add(id)
        together = Math.max(together, running.size)
        attempts.push([attempt, losses])
        await sleep(100, clock)
        running.delete(id)
      },
    })
    await queue.enqueueMany(
      work,
      ['a', 'b', 'c'].map(id => ({ id, payload: null })),
    )
    await die(store, clock, 'work', 10)
    const worker = new Worker(store, { tasks: [work], clock })
    await worker.start()
    await clock.advance('1m')
    expect(await store.count({})).toMatchObject({ succeeded: 3 })
    expect(attempts).toEqual([
      [1, 1],
      [1, 1],
      [1, 1],
    ])
    expect(together).toBe(3)
    expect((await store.ledger('a')).map(({ attempt, outcome }) => [attempt, outcome])).toEqual([
      [1, 'lost'],
      [1, 'succeeded'],
    ])
  })

  it('runs a task alone from its second loss on', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const queue = new TaskQueue(store)
    const running = new Set<string>()
    const together: number[] = []
    const work = defineTask('work', {
      handler: async (_: null, { id }) => {
        running.add(id)
        if (id === 'killer') together.push(running.size)
        await new Promise(resolve => setImmediate(resolve))
        running.delete(id)
      },
    })
    await queue.enqueue(work, null, { id: 'killer' })
    for (let loss = 1; loss <= 2; loss++) await die(store, clock, 'work')
    await queue.enqueueMany(
      work,
      Array.from({ length: 5 }, () => ({ payload: null })),
    )
    const worker = new Worker(store, { tasks: [work], clock })
    await worker.start()
    await clock.advance('1m')
    expect(await queue.get('killer')).toMatchObject({ status: 'succeeded' })
    expect(together).toEqual([1])
    expect((await store.ledger('killer')).map(({ outcome }) => outcome)).toEqual(['lost', 'lost', 'succeeded'])
  })

  it('gives up on a task whose worker dies every time, by the limit of its policy', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const queue = new TaskQueue(store)
    const kill = defineTask('kill', { policy: { attempts: 5, losses: 2 }, handler: () => {} })
    await queue.enqueue(kill, null, { id: 'killer' })
    for (let loss = 1; loss <= 2; loss++) await die(store, clock, 'kill')
    const events: WorkEvent[] = []
    const worker = new Worker(store, { tasks: [kill], clock, sink: event => events.push(event) })
    await worker.start()
    await settle(clock)
    expect(await queue.get('killer')).toMatchObject({
      status: 'dead',
      reason: 'losses_exhausted',
      errorCode: 'lost',
      attempts: 0,
      losses: 2,
    })
    expect(events).toMatchObject([
      { type: 'gave_up', attempt: 1, reason: 'losses_exhausted', verdict: { code: 'lost' } },
    ])
  })

  it('does not let a loss stretch the backoff', async () => {
    const clock = fakeClock()
    const store = new MemoryStore({ clock })
    const queue = new TaskQueue(store)
    const fail = defineTask('fail', {
      policy: { attempts: 9, backoff: { base: '10s', factor: 2 } },
      handler: () => {
        throw new Error('down')
      },
    })
    await queue.enqueue(fail, null, { id: 'a' })
    const first = new Worker(store, { tasks: [fail], clock })
    await first.start()
    await settle(clock)
    await first.stop()
    await clock.advance('10s')
    await die(store, clock, 'fail')
    const second = new Worker(store, { tasks: [fail], clock })
    await second.start()
    await settle(clock)
    const rows = await store.ledger('a')
    expect(rows.map(({ attempt, outcome, delayMs }) => [attempt, outcome, delayMs])).toEqual([
      [1, 'retry', 10_000],
      [2, 'lost', 0],
      [2, 'retry', 20_000],
    ])
    expect(await queue.get('a')).toMatchObject({ attempts: 2, losses: 1, previousDelayMs: 20_000 })
  })

  it('warns its handlers when it could give no sign of life for as long as its lease', async () => {
    let reason: unknown
    const slow = defineTask('slow', {
      handler: (_: null, { signal }) =>
        new Promise<void>(() => {
          signal.addEventListener('abort', () => {
            reason = signal.reason
          })
        }),
    })
    const { clock, store, queue, start } = await bench([slow])
    await queue.enqueue(slow, null)
    await start()
    await settle(clock)
    store.heartbeat = () => Promise.reject(new Error('the store is away'))
    await clock.advance('25s')
    expect(reason).toBeUndefined()
    await clock.advance('10s')
    expect(reason).toMatchObject({ code: 'lease_lost' })
  })

  it('gives up a task that blocks it for longer than its lease, and not the others that it runs', async () => {
    const clock = fakeClock()
    let blockedMs = 0
    const blockable = {
      ...clock,
      now: () => clock.now() + blockedMs,
      monotonic: () => clock.monotonic() + blockedMs,
    }
    const aborted = (signal: AbortSignal) =>
      new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    let runs = 0
    const heavy = defineTask('heavy', {
      handler: (_: null, { signal }) => {
        runs++
        blockedMs += 40_000
        return aborted(signal)
      },
    })
    const long = defineTask('long', {
      handler: (_: null, { signal }) => Promise.race([sleep(60_000, blockable), aborted(signal)]),
    })
    const store = new MemoryStore({ clock: blockable })
    const queue = new TaskQueue(store)
    const worker = new Worker(store, { tasks: [heavy, long], clock: blockable })
    await queue.enqueue(heavy, null, { id: 'heavy' })
    await queue.enqueue(long, null, { id: 'long' })
    await worker.start()
    await clock.advance('10m')
    expect(await queue.get('heavy')).toMatchObject({
      status: 'dead',
      reason: 'losses_exhausted',
      attempts: 0,
      losses: 3,
    })
    expect(await queue.get('long')).toMatchObject({ status: 'succeeded' })
    expect(runs).toBe(3)
    const rows = await store.ledger('heavy')
    expect(rows.map(({ outcome, attempt }) => [outcome, attempt])).toEqual(Array(3).fill(['lost', 1]))
    await worker.stop()
  })

  it('charges nothing to a task for a lease that the store did not renew, however often', async () => {
    const long = defineTask('long', {
      handler: (_: null, { signal }) =>
        Promise.race([
          sleep(60_000, clock),
          new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
        ]),
    })
    const { clock, store, queue, start } = await bench([long])
    const { id } = await queue.enqueue(long, null)
    await start()
    const heartbeat = store.heartbeat
    for (let outages = 0; outages < 5; outages++) {
      store.heartbeat = () => Promise.reject(new Error('the store is away'))
      await clock.advance('45s')
      store.heartbeat = heartbeat
      await clock.advance('1s')
    }
    await clock.advance('2m')
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', losses: 0 })
    const outcomes = (await store.ledger(id)).map(({ outcome }) => outcome)
    expect(outcomes.length).toBeGreaterThan(4)
    expect(new Set(outcomes.slice(0, -1))).toEqual(new Set(['later']))
  })

  it('does not do work again whose result JSON cannot hold', async () => {
    let calls = 0
    const big = defineTask('big', { handler: (): unknown => BigInt(++calls) })
    const events: WorkEvent[] = []
    const { clock, store, queue, start } = await bench([big], { sink: event => void events.push(event) })
    const { id } = await queue.enqueue(big, null)
    await start()
    await clock.advance('1d')
    expect(calls).toBe(1)
    const reason = 'JSON cannot hold a bigint'
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: undefined, reason })
    expect(await store.ledger(id)).toMatchObject([{ outcome: 'succeeded', reason }])
    expect(events.map(({ type }) => type)).toEqual(['attempt_started', 'attempt_succeeded', 'result_not_kept'])
    expect(events[2]).toMatchObject({ work: { id }, reason })
    await expect(queue.result(id)).rejects.toMatchObject({ name: 'ResultError', code: 'result_not_kept' })
  })

  it('does not keep a result that is too long, and says so', async () => {
    const long = defineTask('long', { handler: () => 'x'.repeat(2_000_000) })
    const { clock, queue, start } = await bench([long])
    const { id } = await queue.enqueue(long, null)
    await start()
    await settle(clock)
    const reason = 'It is 2000002 characters long, and 1048576 are allowed'
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: undefined, reason })
  })

  it('makes a dead letter of what the store can never take, and settles the others', async () => {
    const work = defineTask('work', { handler: (n: number) => n })
    const { clock, store, queue, start } = await bench([work])
    const settleFor = store.settle.bind(store)
    store.settle = async settlements => {
      const isBad = settlements.some(({ outcome }) => outcome.type === 'succeeded' && outcome.result === '2')
      if (isBad) throw new TypeError('cannot bind this value')
      return settleFor(settlements)
    }
    const items = [1, 2, 3].map(payload => ({ payload, id: `t${payload}` }))
    await queue.enqueueMany(work, items)
    await start()
    await clock.advance('1s')
    expect(await queue.get('t1')).toMatchObject({ status: 'succeeded' })
    expect(await queue.get('t2')).toMatchObject({ status: 'dead', errorCode: 'settlement_refused' })
    expect(await queue.get('t3')).toMatchObject({ status: 'succeeded' })
  })

  it('settles what was done once a store that was away is back', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, store, queue, start } = await bench([work])
    const { id } = await queue.enqueue(work, null)
    const settleFor = store.settle.bind(store)
    let failures = 0
    store.settle = settlements => (++failures <= 3 ? Promise.reject(new Error('no room')) : settleFor(settlements))
    await start()
    await clock.advance('10s')
    expect(failures).toBeGreaterThan(3)
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: 'done' })
  })

  it('tells a sink what happens, in the same words as a call', async () => {
    const events: WorkEvent[] = []
    let calls = 0
    const flaky = defineTask('flaky', {
      policy: { attempts: 2, backoff: { base: '1s' } },
      handler: () => {
        if (++calls === 1) throw new Error('down')
      },
    })
    const { clock, queue, start } = await bench([flaky], { sink: event => events.push(event) })
    await queue.enqueue(flaky, null, { id: 't1', key: 'tenant' })
    await start()
    await clock.advance('5s')
    expect(events.map(({ type }) => type)).toEqual([
      'attempt_started',
      'retry_scheduled',
      'attempt_started',
      'attempt_succeeded',
    ])
    expect(events[0]?.work).toEqual({ kind: 'task', id: 't1', name: 'flaky', category: undefined, tenantId: 'tenant' })
  })

  it.each(['cancel', 'stop'] as const)(
    'settles a lost task once, whose dead letter is on its way when %s comes',
    async how => {
      const clock = fakeClock()
      const store = new MemoryStore({ clock })
      let buried = () => {}
      const kind: WorkKind = {
        ...taskKind(defineTask('work', { policy: { losses: 1 }, handler: () => 'done' }), store),
        bury: () => new Promise(resolve => (buried = () => resolve({ type: 'skipped', reason: 'It lies elsewhere.' }))),
      }
      await store.enqueue([{ kind: 'work', payload: 'null', id: 'lost' }])
      await store.claim({ worker: 'dead', leaseMs: 1, rooms: [{ kinds: ['work'] }], limit: 1, isIdle: true })
      await clock.advance(1)
      const engine = new Engine(store, [kind], { clock, grace: 0 })
      await engine.start()
      await settle(clock)
      if (how === 'cancel') await store.cancel(['lost'])
      else void engine.stop()
      await settle(clock)
      buried()
      await settle(clock)
      await engine.stop()
      const [status, outcomes] = how === 'cancel' ? ['skipped', ['lost', 'skipped']] : ['waiting', ['lost']]
      expect([engine.stale, (await store.get('lost'))?.status]).toEqual([0, status])
      expect((await store.ledger('lost')).map(({ outcome }) => outcome)).toEqual(outcomes)
    },
  )

  it('soon finds what is due when the clock was set, or the machine has slept', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, queue, start } = await bench([work])
    const { id } = await queue.enqueue(work, null, { delay: '8h' })
    await start()
    await clock.advance('1m')
    clock.setNow(clock.now() + 9 * 3_600_000)
    await clock.advance('1m')
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded' })
  })

  it('starts once, however often it is told to', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, worker, start } = await bench([work])
    await Promise.all([start(), start()])
    await start()
    await settle(clock)
    expect(clock.timers).toBe(2)
    await worker.stop()
    expect(clock.timers).toBe(0)
  })

  it('can be started again after the store was away', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, store, queue, start } = await bench([work])
    const heartbeat = store.heartbeat.bind(store)
    store.heartbeat = () => Promise.reject(new Error('away'))
    await expect(start()).rejects.toThrow('away')
    store.heartbeat = heartbeat
    const { id } = await queue.enqueue(work, null)
    await start()
    await settle(clock)
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded' })
  })

  it('that is stopped while it starts does not start, nor does one that was stopped', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, store, queue, worker, start } = await bench([work])
    const { id } = await queue.enqueue(work, null)
    const starting = expect(start()).rejects.toMatchObject({ code: 'worker_stopped' })
    await worker.stop()
    await starting
    await expect(start()).rejects.toMatchObject({ code: 'worker_stopped' })
    await clock.advance('1m')
    expect(await queue.get(id)).toMatchObject({ status: 'waiting' })
    expect([clock.timers, await store.heartbeat({ worker: 'other', leaseMs: 1000 })]).toEqual([
      0,
      { cancelled: [], rescued: 0 },
    ])
  })

  it('that has worked and was stopped does not start again', async () => {
    const { worker, start } = await bench([defineTask('work', { handler: () => 'done' })])
    await start()
    await worker.stop()
    await expect(start()).rejects.toMatchObject({ code: 'worker_stopped' })
  })

  it('does not start a task whose time to live is over, the first attempt included', async () => {
    const calls: string[] = []
    const events: WorkEvent[] = []
    const code = defineTask('one-time-code', { policy: { ttl: '5m' }, handler: () => calls.push('sent') })
    const once = defineTask('once', { policy: { ttl: 0 }, handler: () => calls.push('once') })
    const { clock, store, queue, start } = await bench([code, once], { sink: event => events.push(event) })
    const { id } = await queue.enqueue(code, null)
    const only = await queue.enqueue(once, null)
    const delayed = await queue.enqueue(code, null, { delay: '6m' })
    await clock.advance('5m')
    await start()
    await settle(clock)
    expect(calls).toEqual(['once'])
    expect(await queue.get(id)).toMatchObject({ status: 'dead', reason: 'ttl_expired', attempts: 0 })
    expect(await store.ledger(id)).toEqual([])
    expect(await queue.get(only.id)).toMatchObject({ status: 'succeeded' })
    // The time to live of a task that is to run later begins when it is due.
    await clock.advance('2m')
    expect(await queue.get(delayed.id)).toMatchObject({ status: 'succeeded' })
    const gaveUp = events.find(({ type }) => type === 'gave_up')
    expect(gaveUp).toMatchObject({ attempt: 0, reason: 'ttl_expired', failure: { code: 'ttl_expired' } })
  })

  it('tells its tasks to end when the grace period is over, though the store is away', async () => {
    let reason: unknown
    let end = () => {}
    const hang = defineTask('hang', {
      handler: (_: null, { signal }) => {
        signal.addEventListener('abort', () => (reason = signal.reason))
        return new Promise(() => {})
      },
    })
    const quick = defineTask('quick', { handler: () => new Promise<void>(resolve => (end = resolve)) })
    const { clock, store, queue, worker, start } = await bench([hang, quick], { grace: '5s' })
    const hung = await queue.enqueue(hang, null)
    const done = await queue.enqueue(quick, null)
    await start()
    await settle(clock)
    const settleFor = store.settle.bind(store)
    store.settle = () => Promise.reject(new Error('away'))
    const stopping = worker.stop()
    end()
    await clock.advance('6s')
    expect(reason).toMatchObject({ code: 'worker_stopped' })

    store.settle = settleFor
    await clock.advance('10s')
    await stopping
    expect(await queue.get(hung.id)).toMatchObject({ status: 'waiting', attempts: 0 })
    expect(await queue.get(done.id)).toMatchObject({ status: 'succeeded' })
    expect(clock.timers).toBe(0)
  })

  it('forgets nothing unless it is told to', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, queue, start } = await bench([work], { lease: '365d' })
    const { id } = await queue.enqueue(work, null)
    await start()
    await clock.advance('365d')
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded' })
  })

  it('forgets what is over once its time is over, and dead letters only if it is told so', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const fail = defineTask('fail', {
      handler: () => {
        throw new FinalError('no')
      },
    })
    const retention = { ended: '1h', keys: '2h', audit: '3h' } as const
    const { clock, store, queue, start } = await bench([work, fail], { retention, concurrency: 500, lease: '1h' })
    const items = Array.from({ length: 450 }, () => ({ payload: null }))
    const done = (await queue.enqueueMany(work, items)).map(({ id }) => id)
    const dead = await queue.enqueue(fail, null)
    await store.once('key', () => 1)
    await store.audit.append(['1'])
    await start()
    await clock.advance('59m')
    expect(await store.count({})).toMatchObject({ succeeded: 450, dead: 1 })
    await clock.advance('3m')
    expect(await store.count({})).toMatchObject({ succeeded: 0, dead: 1 })
    expect(await store.ledger(done[0] ?? '')).toEqual([])
    expect(await store.once('key', () => 2)).toBe(1)
    await clock.advance('2h')
    expect(await store.once('key', () => 2)).toBe(2)
    expect((await store.audit.page({ limit: 1 })).items).toEqual([])
    expect(await queue.deadLetter(dead.id)).toBeDefined()
  })

  it('goes on forgetting after the store was away, and stops with the worker', async () => {
    const work = defineTask('work', { handler: () => 'done' })
    const { clock, store, queue, worker, start } = await bench([work], { retention: { ended: 0 }, lease: '1h' })
    const prune = store.prune.bind(store)
    let calls = 0
    store.prune = (keep, limit) => (++calls === 1 ? Promise.reject(new Error('away')) : prune(keep, limit))
    await queue.enqueue(work, null)
    await start()
    await clock.advance('30s')
    expect(await store.count({})).toMatchObject({ succeeded: 1 })
    await clock.advance('1m')
    expect(await store.count({})).toMatchObject({ succeeded: 0 })
    await worker.stop()
    expect(clock.timers).toBe(0)
  })

  it('lets its store forget idle lanes without any retention, and nothing that has one', async () => {
    const { clock, store, worker, start } = await bench([])
    const asked: unknown[] = []
    const prune = store.prune.bind(store)
    store.prune = (keep, limit) => {
      asked.push(Object.values(keep).filter(kept => kept !== undefined))
      return prune(keep, limit)
    }
    await start()
    await clock.advance('90s')
    expect(asked).toEqual([[], []])
    await worker.stop()
  })

  it('refuses a retention that is no duration', () => {
    const retention = { dead: 'for ever' as '1d' }
    expect(() => new Worker(new MemoryStore(), { tasks: [], retention })).toThrow(/'retention.dead'/)
  })

  it('gives a handler its task in one piece: copied or taken apart, it has its signal and its once', async () => {
    const copies: TaskContext[] = []
    const work = defineTask('work', {
      handler: (_: null, task) => {
        const { signal, once } = task
        copies.push({ ...task }, { ...task, signal, once })
        return once(`work-${task.id}`, () => signal.aborted)
      },
    })
    const { clock, queue, start } = await bench([work])
    const { id } = await queue.enqueue(work, null)
    await start()
    await settle(clock)
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: false })
    const [copy, parts] = copies
    expect(copy?.signal).toBeInstanceOf(AbortSignal)
    expect(copy?.signal).toBe(parts?.signal)
    expect(await copy?.once(`work-${id}`, () => 'not again').catch(String)).toBe(false)
  })

  it('runs a handler’s once for as long as the run holds its task', async () => {
    let runs = 0
    let writes = 0
    let late: TaskContext | undefined
    const bill = defineTask('bill', {
      policy: { attempts: 3, backoff: 'none' },
      handler: async (_: null, task) => {
        const number = await task.once('bill', () => ++writes, { params: { customer: 'ada' } })
        late ??= task
        if (++runs < 3) throw new Error('the printer is on fire')
        return number
      },
    })
    const { clock, queue, start } = await bench([bill])
    const { id } = await queue.enqueue(bill, null)
    await start()
    while (runs < 3) await settle(clock)
    await settle(clock)
    expect(await queue.get(id)).toMatchObject({ status: 'succeeded', result: 1 })
    expect([runs, writes]).toEqual([3, 1])
    await expect(late?.once('another', () => ++writes)).rejects.toThrow(StaleFenceError)
    await expect(late?.once('bill', () => ++writes, { params: {} })).rejects.toThrow(IdempotencyMismatchError)
    expect(writes).toBe(1)
  })
})
