import { beforeEach, describe, expect, expectTypeOf, it } from 'vitest'
import { verify } from '../operate/index.js'
import { FinalError, OptionError, RateLimitedError } from '../policy/index.js'
import { StoreUnavailableError } from '../store/index.js'
import { MemoryStore } from '../store/internal.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import {
  type BatchEnd,
  compressed,
  type Death,
  type DeclaredTask,
  declareTask,
  defineTask,
  encrypted,
  type JointContext,
  type JointDefinition,
  type JointHandler,
  later,
  type StandardSchema,
  skip,
  type TaskContext,
  TaskQueue,
  Worker,
  type WorkerOptions,
} from './index.js'
import type { AnyDefinition } from './internal.js'
import type { JointOptions } from './joint-task.js'

let clock: FakeClock
let store: MemoryStore
let queue: TaskQueue

beforeEach(() => {
  clock = fakeClock()
  store = new MemoryStore({ clock })
  queue = new TaskQueue(store)
})

/** All tasks that fail together come back together. */
const STEADY = { backoff: 'fixed', jitter: 'none' } as const

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)
const idOf = (n: number) => `t${String(n).padStart(3, '0')}`

/** Enqueues tasks whose ids tell their payloads. */
const add = (task: DeclaredTask<number>, payloads: readonly number[]) =>
  queue.enqueueMany(
    task,
    payloads.map(n => ({ payload: n, id: idOf(n), key: `k${n % 3}` })),
  )

const worker = (task: AnyDefinition, options: Partial<WorkerOptions> = {}) =>
  new Worker(store, { tasks: [task], clock, name: 'w', ...options })

/** A kind of task whose calls are remembered. */
function recorded(
  handler: JointHandler<number, unknown>,
  { together, ...options }: Partial<Omit<JointOptions<number, unknown>, 'handler'>> = {},
) {
  const calls: (readonly number[])[] = []
  const record: JointHandler<number, unknown> = (payloads, call) => {
    calls.push(payloads)
    return handler(payloads, call)
  }
  const settings = { policy: STEADY, ...options, together: { size: 100, ...together } }
  return { calls, task: defineTask('work', { ...settings, handler: record }) }
}

/** Runs tasks until all have ended. */
async function run(
  payloads: readonly number[],
  handler: JointHandler<number, unknown>,
  options: Partial<Omit<JointOptions<number, unknown>, 'handler'>> = {},
): Promise<readonly (readonly number[])[]> {
  const { calls, task } = recorded(handler, options)
  await add(task, payloads)
  const running = worker(task)
  await running.start()
  await ended()
  await running.stop()
  return calls
}

async function ended(): Promise<void> {
  for (let seconds = 0; seconds < 1000; seconds++) {
    await clock.advance('1s')
    const { waiting, running } = await store.count({})
    if (waiting + running === 0) return
  }
  throw new Error('The tasks have not ended.')
}

const poisoned =
  (poison: (n: number) => boolean, error: () => Error = () => new Error('bad task')): JointHandler<number, number> =>
  payloads => {
    if (payloads.some(poison)) throw error()
    return payloads
  }

describe('tasks that are called together', () => {
  it('share a call, and each has its own result, whatever lane it is in', async () => {
    const calls = await run(numbers(250), payloads => payloads.map(n => n * 2))
    expect(calls.map(call => call.length).sort()).toEqual([100, 100, 50].sort())
    expect(calls.flat().sort((a, b) => a - b)).toEqual(numbers(250))
    expect(await store.get(idOf(7))).toMatchObject({ status: 'succeeded', result: '14' })
    expect(await store.ledger(idOf(7))).toMatchObject([{ outcome: 'succeeded', attempt: 1, worker: 'w' }])
  })

  it('have a verdict each: a result, nothing, an error, a skip, a wait', async () => {
    const calls = await run(numbers(6), (payloads, { tasks }) =>
      payloads.map((n, index) => {
        if (n === 1) return undefined
        if (n === 2) return new FinalError('bad', { code: 'http_422' })
        if (n === 3) return skip('nothing to do')
        if (n === 4 && clock.now() - (tasks[index]?.submittedAt ?? 0) < 60_000) return later('1m')
        return n
      }),
    )
    expect(calls.map(call => [...call].sort())).toEqual([[0, 1, 2, 3, 4, 5], [4]])
    expect(await store.count({})).toMatchObject({ succeeded: 4, skipped: 1, dead: 1 })
    expect(await store.get(idOf(2))).toMatchObject({ status: 'dead', errorCode: 'http_422', attempts: 1 })
    expect((await store.ledger(idOf(4))).map(({ outcome, attempt }) => [outcome, attempt])).toEqual([
      ['later', 1],
      ['succeeded', 1],
    ])
  })

  it('are halved until a poisoned one is alone, and its failed calls are its attempts', async () => {
    for (const poison of [0, 37, 99]) {
      store = new MemoryStore({ clock })
      queue = new TaskQueue(store)
      const calls = await run(
        numbers(100),
        poisoned(n => n === poison),
        { policy: { ...STEADY, attempts: 5 } },
      )
      expect(await store.count({})).toMatchObject({ succeeded: 99, dead: 1 })
      expect(calls.length - 1).toBeLessThanOrEqual(14)
      const ledger = await store.ledger(idOf(poison))
      expect(ledger).toHaveLength(1)
      expect(ledger[0]?.attempt).toBeGreaterThanOrEqual(5)
      expect(await store.get(idOf(poison))).toMatchObject({ status: 'dead', reason: 'attempts_exhausted' })
      expect((await verify(store)).discrepancies).toEqual([])
    }
  })

  it('wait together, and are charged one attempt, if both halves fail alike', async () => {
    let failures = 0
    const calls = await run(numbers(100), payloads => {
      if (++failures <= 3) throw Object.assign(new Error('unavailable'), { status: 503 })
      return payloads
    })
    expect(calls.map(call => call.length)).toEqual([100, 50, 50, 100])
    expect((await store.ledger(idOf(5))).map(({ outcome, attempt }) => [outcome, attempt])).toEqual([
      ['retry', 1],
      ['succeeded', 2],
    ])
  })

  it('name their call in the ledger, whatever came of it', async () => {
    const ids: string[] = []
    await run(numbers(3), (payloads, { call }) => {
      ids.push(call)
      return payloads.map(n => (n === 2 ? new FinalError('bad') : n))
    })
    const ledgers = await Promise.all(numbers(3).map(n => store.ledger(idOf(n))))
    expect(ledgers.flat().map(({ call }) => call)).toEqual([ids[0], ids[0], ids[0]])
  })

  it('are deferred by a rate limit at no cost of an attempt, and nothing is halved', async () => {
    let isOpen = false
    const calls = await run(numbers(30), payloads => {
      if (isOpen) return payloads
      isOpen = true
      throw new RateLimitedError('slow down', { retryAfterMs: 5000 })
    })
    expect(calls[0]).toHaveLength(30)
    expect(calls.flat()).toHaveLength(60)
    expect((await store.ledger(idOf(5))).map(({ outcome, attempt }) => [outcome, attempt])).toEqual([
      ['deferred', 1],
      ['succeeded', 1],
    ])
  })

  it('hand back what waits in a lane that met a rate limit, and no other lane', async () => {
    const handler: JointHandler<number, unknown> = async (payloads, { tasks }) => {
      await sleep(10_000, clock)
      return payloads.map((n, i) =>
        tasks[i]?.key === 'k0' ? new RateLimitedError('slow', { retryAfterMs: 60_000 }) : n,
      )
    }
    const { calls, task } = recorded(handler, { together: { size: 3 } })
    await add(task, numbers(6))
    const released: string[] = []
    const settle = store.settle.bind(store)
    store.settle = settlements => {
      released.push(...settlements.filter(({ outcome }) => outcome.type === 'released').map(({ id }) => id))
      return settle(settlements)
    }
    const running = worker(task)
    await running.start()
    await clock.advance('21s')
    expect(released).toHaveLength(1)
    // The other task of that lane waits in the store, without an attempt on record.
    expect(calls.map(call => call.map(n => n % 3).sort())).toEqual([
      [0, 1, 2],
      [1, 2],
    ])
    expect(await store.count({})).toMatchObject({ succeeded: 4, waiting: 2 })
    const ledgers = await Promise.all([0, 3].map(n => store.ledger(idOf(n))))
    expect(ledgers.flat().map(({ outcome }) => outcome)).toEqual(['deferred'])
    await running.stop()
  })

  it('are given as many places as their calls have, beside those of other tasks', async () => {
    const done: number[] = []
    const single = defineTask('single', { handler: async (n: number) => void done.push(n) })
    const { calls, task } = recorded(
      async payloads => {
        await sleep(60_000, clock)
        return payloads
      },
      { together: { size: 50, concurrency: 2 } },
    )
    await add(task, numbers(200))
    await queue.enqueueMany(single, [{ payload: 1 }, { payload: 2 }])
    const running = new Worker(store, { tasks: [single, task], clock, concurrency: 1, lease: '1h' })
    await running.start()
    await clock.advance('2s')
    expect(calls.map(call => call.length)).toEqual([50, 50])
    expect(done).toEqual([1, 2])
    await clock.advance('1m')
    expect(calls.map(call => call.length)).toEqual([50, 50, 50, 50])
    await clock.advance('1m')
    expect(await store.count({})).toMatchObject({ succeeded: 202 })
    await running.stop()
  })

  it('fill their calls while there is enough to do, however small the first one was, and with a schema', async () => {
    const slow: JointHandler<number, number> = async payloads => {
      await sleep(2000, clock)
      return payloads
    }
    const { calls, task } = recorded(slow, { payload: anyNumber })
    const running = worker(task)
    await running.start()
    await add(task, [0])
    await clock.advance('500ms')
    await add(task, numbers(400).slice(1))
    await ended()
    expect(calls.map(call => call.length)).toEqual([1, 100, 100, 100, 99])
    await running.stop()
  })

  it('wait for others no longer than they say', async () => {
    const { calls, task } = recorded(payloads => payloads, { together: { size: 10, within: '5s' } })
    const running = worker(task)
    await running.start()
    await add(task, [1])
    await clock.advance('4s')
    await add(task, [2])
    await clock.advance('900ms')
    expect(calls).toEqual([])
    await clock.advance('200ms')
    expect(calls.map(call => [...call].sort())).toEqual([[1, 2]])
    await running.stop()
  })

  it('fail alone if a payload is no longer valid', async () => {
    const even = schemaOf<number>(n => (Number(n) % 2 === 0 ? undefined : 'it is odd'))
    const { calls, task } = recorded(payloads => payloads, { payload: even })
    await add(declareTask<number>('work'), numbers(10))
    const running = worker(task)
    await running.start()
    await ended()
    await running.stop()
    expect(calls.map(call => [...call].sort())).toEqual([[0, 2, 4, 6, 8]])
    expect(await store.count({})).toMatchObject({ succeeded: 5, dead: 5 })
    expect(await store.get(idOf(3))).toMatchObject({ errorCode: 'payload_invalid' })
  })

  it('get their payloads decoded, and one that cannot be decoded fails alone', async () => {
    const codec = [compressed(), encrypted({ keys: { k: Buffer.alloc(32, 7) }, current: 'k' })]
    const other = encrypted({ keys: { other: Buffer.alloc(32, 8) }, current: 'other' })
    const { calls, task } = recorded(payloads => payloads.map(n => n + 1), { codec })
    await add(task, [1, 2])
    await add(declareTask<number>('work', { codec: other }), [3])
    const running = worker(task)
    await running.start()
    await ended()
    await running.stop()
    expect(calls.map(call => [...call].sort())).toEqual([[1, 2]])
    expect(await queue.result(idOf(1), { task })).toBe(2)
    expect((await store.get(idOf(1)))?.result).not.toBe('2')
    expect(await store.get(idOf(3))).toMatchObject({ status: 'dead' })
  })

  it('are called one at a time in an ordered lane', async () => {
    const { calls, task } = recorded(payloads => payloads)
    await queue.enqueueMany(
      task,
      numbers(3).map(n => ({ payload: n, key: 'k' })),
    )
    await store.limit({ kind: 'work' }, { concurrency: 1 })
    const running = worker(task)
    await running.start()
    await ended()
    await running.stop()
    expect(calls).toEqual([[0], [1], [2]])
  })

  it('that are cancelled end without the others, and are part of no other call', async () => {
    const handler: JointHandler<number, number> = async payloads => {
      await sleep(5000, clock)
      if (payloads.includes(0)) throw new FinalError('bad task')
      return payloads
    }
    const { calls, task } = recorded(handler, { together: { size: 4 } })
    await add(task, numbers(8))
    const running = worker(task)
    await running.start()
    await clock.advance('2s')
    const [first = []] = calls
    const inCall = first.filter(n => n !== 0).slice(0, 2)
    const waiting = numbers(8).find(n => !first.includes(n)) ?? -1
    await store.cancel([...inCall, waiting].map(idOf))
    await ended()
    await running.stop()
    expect(await store.count({})).toMatchObject({ cancelled: 3, dead: 1, succeeded: 4 })
    expect(calls.slice(1).flat()).not.toEqual(expect.arrayContaining(inCall))
    expect(calls.flat()).not.toContain(waiting)
  })

  it('whose tasks are all cancelled are told so', async () => {
    let reason: unknown
    const { task } = recorded(async (payloads, { signal }) => {
      await sleep(1e9, clock, signal).catch(error => {
        reason = error
      })
      return payloads
    })
    await add(task, [1, 2])
    const running = worker(task)
    await running.start()
    await clock.advance('2s')
    await store.cancel([idOf(1)])
    await clock.advance('2s')
    expect(reason).toBeUndefined()
    await store.cancel([idOf(2)])
    await clock.advance('2s')
    expect(reason).toMatchObject({ code: 'task_cancelled' })
    expect(await store.count({})).toMatchObject({ cancelled: 2 })
    await running.stop()
  })

  it('are given up by the timeout of the call, not by one of their own', async () => {
    const calls = await run([1, 2], (_, { signal }) => sleep(1e9, clock, signal).then(() => []), {
      policy: { ...STEADY, attempts: 2, timeout: '2s' },
    })
    expect(await store.get(idOf(1))).toMatchObject({ status: 'dead', errorCode: 'timeout' })
    expect(calls.length).toBeGreaterThan(2)
    // The policy on record has no timeout, so that the decision can be recomputed.
    expect((await verify(store)).discrepancies).toEqual([])
  })

  it('have failed if the handler returns another number of results', async () => {
    await run([1, 2, 3], payloads => payloads.slice(1), { policy: { attempts: 1 } })
    expect(await store.count({})).toMatchObject({ dead: 3 })
    const { errorCode, errorMessage } = (await store.get(idOf(1))) ?? {}
    expect(errorCode).toBe('call_result_invalid')
    expect(errorMessage).toMatch(/'work' got 1 payloads and returned 0 results\. Return one result/)
  })

  it('share what a call has spent, halves too, and add what is their own', async () => {
    const calls = await run(
      numbers(4),
      (payloads, { tasks, used }) => {
        used({ tokens: 100 })
        tasks[0]?.used({ pages: 1 })
        return poisoned(n => n === 0)(payloads, { tasks } as JointContext)
      },
      { policy: { ...STEADY, attempts: 1 } },
    )
    const ledgers = await Promise.all(numbers(4).map(n => store.ledger(idOf(n))))
    const sum = (bucket: string) => ledgers.flat().reduce((all, { notes }) => all + (notes?.used?.[bucket] ?? 0), 0)
    expect(calls.length).toBeGreaterThan(2)
    expect(sum('tokens')).toBeCloseTo(100 * calls.length)
    expect(sum('pages')).toBe(calls.length)
  })

  it('wait as their code says, and as often as their own policy allows', async () => {
    const { calls, task } = recorded(
      payloads => {
        throw Object.assign(new Error(`down for ${payloads.length}`), { status: 503 })
      },
      { policy: { attempts: 1 }, policyMax: { attempts: 5 }, retryDelay: (_, { attempt }) => attempt * 60_000 },
    )
    await queue.enqueueMany(
      task,
      numbers(2).map(n => ({ payload: n, id: idOf(n), policy: { attempts: 3 } })),
    )
    const running = worker(task)
    await running.start()
    await ended()
    await running.stop()
    // Twice both wait, since it is the service; at the last attempt there is nothing to wait for.
    expect(calls.map(call => call.length)).toEqual([2, 1, 1, 2, 1, 1, 2, 1, 1])
    const ledger = await store.ledger(idOf(0))
    expect(ledger.map(({ outcome, delayMs }) => [outcome, delayMs])).toEqual([
      ['retry', 60_000],
      ['retry', 120_000],
      ['dead', undefined],
    ])
    expect((await verify(store)).discrepancies).toEqual([])
  })

  it('refuse a step, and say what to do', async () => {
    const step: JointHandler<number, unknown> = (_, { tasks }) =>
      Promise.all(tasks.map(task => (task as TaskContext).step('charge', () => 1)))
    await run([1], step, { policy: { attempts: 1 } })
    expect(await store.get(idOf(1))).toMatchObject({ status: 'dead', errorCode: 'step_unsupported' })
  })

  it('know their tasks: attempt, lane, fence, log', async () => {
    const seen: unknown[] = []
    await run([4], async (payloads, { tasks }) => {
      for (const task of tasks) {
        seen.push([task.id, task.key, task.attempt, task.losses])
        task.log('looked at it')
        await task.once('done', () => 1)
      }
      return payloads.map(() => (seen.length === 1 ? new Error('not yet') : 'done'))
    })
    expect(seen).toEqual([
      [idOf(4), 'k1', 1, 0],
      [idOf(4), 'k1', 2, 0],
    ])
    const [failed] = await store.ledger(idOf(4))
    expect(failed?.notes?.log?.map(({ text }) => text)).toEqual(['looked at it'])
  })

  it('are handed back by a worker that stops, uncounted, and run elsewhere', async () => {
    const { calls, task } = recorded(
      async payloads => {
        if (calls.length === 1) await sleep(1e9, clock)
        return payloads
      },
      { together: { size: 10 } },
    )
    await add(task, numbers(25))
    const first = worker(task, { grace: '5s' })
    await first.start()
    await clock.advance('2s')
    const stopped = first.stop()
    await clock.advance('10s')
    await stopped
    expect(await store.count({})).toMatchObject({ waiting: 25, running: 0 })
    const second = worker(task, { name: 'second' })
    await second.start()
    await ended()
    await second.stop()
    expect(await store.count({})).toMatchObject({ succeeded: 25 })
    expect((await store.ledger(idOf(3))).map(({ outcome, attempt }) => [outcome, attempt])).toEqual([['succeeded', 1]])
    expect((await store.get(idOf(3)))?.attempts).toBe(0)
  })

  it('are drained, the last call too, which is not full', async () => {
    const { calls, task } = recorded(payloads => payloads, { together: { size: 10 } })
    await add(task, numbers(25))
    const draining = worker(task).drain()
    await clock.advance('5s')
    expect(await draining).toMatchObject({ ran: 25, succeeded: 25, ended: 'empty' })
    expect(calls.map(call => call.length).sort()).toEqual([10, 10, 5].sort())
    await add(task, numbers(40).slice(25))
    const some = worker(task).drain({ max: 4 })
    await clock.advance('5s')
    expect(await some).toMatchObject({ ran: 4, ended: 'max' })
  })

  it.each([
    ['goes on', false],
    ['throws when its signal aborts', true],
  ])('are not halved when the lease of their worker is over and the handler %s', async (_, isListening) => {
    const { calls, task } = recorded(async (payloads, { signal }) => {
      const isFirst = calls.length === 1
      await sleep(60_000, clock, isListening && isFirst ? signal : undefined)
      return payloads
    })
    await add(task, numbers(100))
    const heartbeat = store.heartbeat.bind(store)
    const running = worker(task, { lease: '5s' })
    await running.start()
    await clock.advance('1s')
    expect(calls).toHaveLength(1)
    store.heartbeat = () => Promise.reject(new StoreUnavailableError('The store', 'down', { wasSent: false }))
    await clock.advance('7s')
    store.heartbeat = heartbeat
    await ended()
    await running.stop()
    expect(calls.map(call => call.length)).toEqual([100, 100])
    expect((await store.get(idOf(7)))?.attempts).toBe(0)
  })

  it('run alone once two workers have died of them, without waiting for others', async () => {
    const losses: number[] = []
    const handler: JointHandler<number, number> = (payloads, { tasks }) => {
      losses.push(...tasks.map(task => task.losses))
      return payloads
    }
    const { calls, task } = recorded(handler, { together: { size: 10, within: '1h' } })
    await add(task, numbers(3))
    const dying = async (name: string) => {
      const rooms = [{ kinds: ['work'] }]
      const claim = () => store.claim({ worker: name, leaseMs: 1000, rooms, limit: 10, isIdle: true })
      const undecided = (await claim()).tasks.filter(({ isUndecided }) => isUndecided)
      const outcome = { type: 'retry', delayMs: 0, isBackoff: false } as const
      await store.settle(undecided.map(({ id, token }) => ({ id, token, outcome })))
      if (undecided.length > 0) await claim()
      await clock.advance(1000)
      await store.heartbeat({ worker: 'another', leaseMs: 1000 })
    }
    await dying('a')
    await dying('b')
    const running = worker(task)
    await running.start()
    await clock.advance('10s')
    expect(calls).toEqual([[0], [1], [2]])
    expect(losses).toEqual([2, 2, 2])
    expect(await store.count({})).toMatchObject({ succeeded: 3 })
    await running.stop()
  })

  it('end the batch that they belong to, and may add to it', async () => {
    const report = defineTask('report', { handler: (end: BatchEnd) => end.counts })
    const { task } = recorded(async (payloads, { tasks }) => {
      await Promise.all(payloads.map((n, i) => n === 0 && tasks[i]?.batch?.add(task, [{ payload: 7 }])))
      return payloads.map(n => (n === 1 ? new FinalError('bad') : n))
    })
    await queue.enqueueBatch('b', task, [{ payload: 0 }, { payload: 1 }, { payload: 2 }], { onEnd: { task: report } })
    const running = new Worker(store, { tasks: [task, report], clock })
    await running.start()
    await ended()
    await running.stop()
    const counts = { succeeded: 3, skipped: 0, dead: 1, cancelled: 0 }
    expect(await queue.result('batch-end:b:1', { task: report })).toEqual(counts)
  })

  it('are followed by another task when one dies', async () => {
    const deaths: unknown[] = []
    const tell = defineTask('tell', { handler: (death: Death) => void deaths.push(death) })
    const { task } = recorded(payloads => payloads.map(n => (n === 1 ? new FinalError('bad') : n)), { onDead: tell })
    await add(task, numbers(3))
    const running = new Worker(store, { tasks: [task, tell], clock })
    await running.start()
    await ended()
    await running.stop()
    expect(deaths).toMatchObject([{ id: idOf(1), reason: 'final_error' }])
  })
})

describe('the definition of tasks that are called together', () => {
  const handler = (payloads: readonly number[]) => payloads
  const define = (together: unknown) => defineTask('work', { together: together as { size: number }, handler })

  it.each([
    [{}, "'together.size' of the task 'work' must be a whole number, 1 or more, got undefined."],
    [{ size: 0 }, "'together.size' of the task 'work' must be a whole number, 1 or more, got 0."],
    [{ size: 10, concurrency: 1.5 }, "'together.concurrency' of the task 'work' must be a whole number"],
    [{ size: 10, within: 'soon' }, "'together.within'"],
    [{ size: 10, whithin: '1s' }, "Did you mean 'within'"],
  ])('is refused with %j', (together, problem) => {
    expect(() => define(together)).toThrow(OptionError)
    expect(() => define(together)).toThrow(problem)
  })

  it('has one timeout for all tasks of a call, so that none may set its own', () => {
    const task = declareTask<number>('work', { policyMax: { timeout: '1m' } })
    expect(() => defineTask(task, { together: { size: 10 }, handler: numbers => [...numbers] })).toThrow(
      "'policyMax.timeout' of the task 'work' lets a task set a timeout, but a call has one for all its tasks.",
    )
  })

  it('has slots of its own, and so cannot be named by the reserve of a worker', () => {
    const task = define({ size: 10 })
    expect(() => worker(task, { reserve: { work: 2 } })).toThrow(
      "'reserve' names the kind 'work', which has slots of its own: 'together' says how many. Leave it out.",
    )
    const single = defineTask('work', { handler: () => {} })
    expect(() => new Worker(store, { tasks: [task, single] })).toThrow(/Two of the tasks have the kind 'work'/)
  })

  it('has the types of its payload and result, also with a declared task', () => {
    const lengths = defineTask('lengths', {
      together: { size: 10 },
      handler: async (texts: readonly string[], { tasks }) => {
        expectTypeOf(tasks[0]).not.toHaveProperty('step')
        return texts.map(text => (text === '' ? new Error('empty') : text === '-' ? skip('a dash') : text.length))
      },
    })
    expectTypeOf(lengths).toEqualTypeOf<JointDefinition<string, number, string, number>>()
    const declared = declareTask<{ to: string }, number>('declared')
    const task = defineTask(declared, {
      together: { size: 10 },
      handler: emails => {
        expectTypeOf(emails).toEqualTypeOf<readonly { to: string }[]>()
        return emails.map(({ to }) => to.length)
      },
    })
    expectTypeOf(task).toExtend<DeclaredTask<{ to: string }, number>>()
    expect(task).toMatchObject({ kind: 'declared', together: { size: 10, withinMs: 100, concurrency: 1 } })
  })
})

function schemaOf<T>(problemOf: (value: unknown) => string | undefined): StandardSchema<T, T> {
  return {
    '~standard': {
      version: 1,
      vendor: 'test',
      validate: async value => {
        const problem = problemOf(value)
        return problem === undefined ? { value: value as T } : { issues: [{ message: problem }] }
      },
    },
  }
}

const anyNumber = schemaOf<number>(value => (typeof value === 'number' ? undefined : 'it is no number'))
