import { beforeEach, describe, expect, it } from 'vitest'
import { verify } from '../operate/index.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { StoreUnavailableError } from '../store/index.js'
import { MemoryStore } from '../store/internal.js'
import { skip } from '../task/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { type BatchHandler, batch, pipeline, type RunResult, type StageHandler, stage } from './index.js'
import type { BatchOptions } from './internal.js'

let clock: FakeClock
let store: MemoryStore

beforeEach(() => {
  clock = fakeClock()
  store = new MemoryStore({ clock })
})

/** All items that fail together come back together. */
const STEADY = { backoff: 'fixed', jitter: 'none' } as const

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

/** Runs items through a batch stage, and remembers the calls. */
async function run(
  items: readonly number[],
  handler: BatchHandler<number, number>,
  options: Partial<BatchOptions<number>> = {},
): Promise<{ readonly result: RunResult; readonly calls: readonly (readonly number[])[] }> {
  const calls: (readonly number[])[] = []
  const record: BatchHandler<number, number> = (inputs, context) => {
    calls.push(inputs)
    return handler(inputs, context)
  }
  const line = pipeline('batches', batch('call', record, { size: 100, ...options }))
  const active = await line.start(items, { store, clock, id: 'r', failureBudget: 1 })
  let isOver = false
  void active.result.finally(() => {
    isOver = true
  })
  for (let seconds = 0; !isOver && seconds < 1000; seconds++) await clock.advance('1s')
  return { result: await active.result, calls }
}

const poisoned =
  (poison: (n: number) => boolean, error: () => Error = () => new Error('bad item')): BatchHandler<number, number> =>
  inputs => {
    if (inputs.some(poison)) throw error()
    return inputs
  }

describe('a batch stage', () => {
  it('takes many items in one call, and passes them on one by one', async () => {
    const { result, calls } = await run(numbers(250), inputs => inputs.map(n => n * 2))
    expect(result).toMatchObject({ status: 'completed', counts: { succeeded: 250 } })
    expect(calls.map(call => call.length)).toEqual([100, 100, 50])
    expect(await store.get('r:000000000007')).toMatchObject({ result: '14' })
  })

  it('makes no more calls at once than it may, and lets items wait for others no longer than it says', async () => {
    let [running, most] = [0, 0]
    async function* trickle() {
      for (const n of numbers(20)) {
        yield n
        await sleep(300, clock)
      }
    }
    const call: BatchHandler<number, number> = async inputs => {
      most = Math.max(most, ++running)
      await sleep(2000, clock)
      running--
      return inputs
    }
    const line = pipeline('trickle', batch('call', call, { size: 10, within: '100ms' }))
    const active = await line.start(trickle(), { store, clock })
    await clock.advance('30s')
    expect(await active.result).toMatchObject({ status: 'completed', counts: { succeeded: 20 } })
    expect(most).toBe(1)
  })

  it.each([
    ['as its code says', undefined, 2],
    ['as its run says', { call: 3 }, 3],
  ])('makes as many calls at once %s, also if some are small', async (_, concurrency, expected) => {
    let [running, most] = [0, 0]
    async function* waves() {
      for (const n of numbers(100)) {
        yield n
        if (n < 10) await sleep(300, clock)
      }
    }
    const call: BatchHandler<number, number> = async inputs => {
      most = Math.max(most, ++running)
      await sleep(10_000, clock)
      running--
      return inputs
    }
    const line = pipeline('waves', batch('call', call, { size: 10, within: '100ms', concurrency: 2 }))
    const active = await line.start(waves(), { store, clock, concurrency })
    await clock.advance('120s')
    expect(await active.result).toMatchObject({ status: 'completed', counts: { succeeded: 100 } })
    expect(most).toBe(expected)
  })

  it('fills its calls while there is enough to do, however small the first one was', async () => {
    async function* oneThenMany() {
      for (const n of numbers(400)) {
        yield n
        if (n === 0) await sleep(500, clock)
      }
    }
    const sizes: number[] = []
    const call: BatchHandler<number, number> = async inputs => {
      sizes.push(inputs.length)
      await sleep(2000, clock)
      return inputs
    }
    const line = pipeline('one', batch('call', call, { size: 100, within: '100ms' }))
    const active = await line.start(oneThenMany(), { store, clock })
    await clock.advance('60s')
    expect(await active.result).toMatchObject({ status: 'completed', counts: { succeeded: 400 } })
    expect(sizes).toEqual([1, 100, 100, 100, 99])
  })

  it('calls no item again that was cancelled meanwhile', async () => {
    const calls: (readonly number[])[] = []
    const call: BatchHandler<number, number> = async inputs => {
      calls.push(inputs)
      await sleep(5000, clock)
      if (inputs.includes(0)) throw new FinalError('bad item')
      return inputs
    }
    const line = pipeline('cancelled', batch('call', call, { size: 4 }))
    const active = await line.start(numbers(4), { store, clock, id: 'r', failureBudget: 1 })
    await clock.advance('2s')
    await store.cancel(['r:000000000001', 'r:000000000003'])
    await clock.advance('120s')
    expect(await active.result).toMatchObject({ counts: { succeeded: 1, dead: 1, cancelled: 2 } })
    expect(calls).toEqual([[0, 1, 2, 3], [0], [2]])
  })

  it('has a verdict per item: a result, an error, a skip', async () => {
    const { result, calls } = await run(numbers(10), inputs =>
      inputs.map(n => (n === 3 ? new FinalError('bad', { code: 'http_422' }) : n === 4 ? skip('nothing to do') : n)),
    )
    expect(result).toMatchObject({ counts: { succeeded: 8, skipped: 1, dead: 1 } })
    expect(calls).toHaveLength(1)
    expect(await store.get('r:000000000003')).toMatchObject({ status: 'dead', errorCode: 'http_422' })
  })

  it('finds one poisoned item among 100 with at most 14 more calls, its retries included', async () => {
    for (const poison of [0, 37, 49, 50, 99]) {
      store = new MemoryStore({ clock })
      const { result, calls } = await run(
        numbers(100),
        poisoned(n => n === poison),
      )
      expect(result).toMatchObject({ counts: { succeeded: 99, dead: 1 } })
      expect(calls.length - 1).toBeLessThanOrEqual(14)
      const id = `r:${String(poison).padStart(12, '0')}`
      expect(await store.get(id)).toMatchObject({ status: 'dead', reason: 'attempts_exhausted' })
      const ledger = await store.ledger(id)
      expect(ledger).toHaveLength(1)
      expect(ledger[0]?.attempt).toBeGreaterThan(1)
      expect((await store.get(id))?.attempts).toBe(ledger[0]?.attempt)
    }
    expect((await verify(store)).discrepancies).toEqual([])
  })

  it('takes two halves that fail alike for a fault of the service: all items wait, and are charged one attempt', async () => {
    let failures = 0
    const { result, calls } = await run(
      numbers(100),
      inputs => {
        if (++failures <= 3) throw Object.assign(new Error('unavailable'), { status: 503 })
        return inputs
      },
      { policy: STEADY },
    )
    expect(result).toMatchObject({ status: 'completed', counts: { succeeded: 100 } })
    expect(calls.map(call => call.length)).toEqual([100, 50, 50, 100])
    expect((await store.ledger('r:000000000005')).map(({ outcome, attempt }) => `${attempt} ${outcome}`)).toEqual([
      '1 retry',
      '2 succeeded',
    ])
  })

  it('halves to the end on the last attempt', async () => {
    const { result, calls } = await run(
      numbers(8),
      poisoned(n => n === 0 || n === 7),
      { policy: { ...STEADY, attempts: 2 } },
    )
    expect(result).toMatchObject({ counts: { succeeded: 6, dead: 2 } })
    // Both halves fail alike at first; the second time each poisoned item is found.
    expect(calls.map(call => call.length)).toEqual([8, 4, 4, 8, 4, 4, 2, 2, 1, 1, 2, 2, 1, 1])
  })

  it('halves to the end where waiting would not help, because the failure is final', async () => {
    const { result } = await run(
      numbers(100),
      poisoned(
        n => n === 10 || n === 90,
        () => new FinalError('unprocessable', { code: 'http_422' }),
      ),
    )
    expect(result).toMatchObject({ counts: { succeeded: 98, dead: 2 } })
  })

  it('halves nothing for a rate limit: all items wait, at no cost of an attempt', async () => {
    let isOpen = false
    const { result, calls } = await run(numbers(100), inputs => {
      if (isOpen) return inputs
      isOpen = true
      throw new RateLimitedError('slow down', { retryAfterMs: 5000 })
    })
    expect(result).toMatchObject({ status: 'completed', counts: { succeeded: 100 } })
    expect(calls[0]).toHaveLength(100)
    expect(calls.flat()).toHaveLength(200)
    expect((await store.ledger('r:000000000005'))[0]).toMatchObject({ outcome: 'deferred', attempt: 1 })
  })

  it('that returns another number of results has failed', async () => {
    const { result } = await run([1, 2, 3], inputs => inputs.slice(1), { policy: { attempts: 1 } })
    expect(result).toMatchObject({ counts: { dead: 3 } })
    const { errorCode, errorMessage } = (await store.get('r:000000000000')) ?? {}
    expect(errorCode).toBe('batch_result_invalid')
    expect(errorMessage).toMatch(/'call' got 1 items and returned 0 results/)
  })

  it('gives up a call that takes too long, not the items that wait for it', async () => {
    const { result, calls } = await run([1, 2], (_, { signal }) => sleep(1e9, clock, signal).then(() => []), {
      timeout: '2s',
      policy: { attempts: 2 },
    })
    expect(result).toMatchObject({ counts: { dead: 2 } })
    expect(await store.get('r:000000000001')).toMatchObject({ errorCode: 'timeout' })
    expect(calls.length).toBeGreaterThan(2)
  })

  it('has no steps: its call fails for good, and is told what to do', async () => {
    const { result } = await run([1], (_, context) => Reflect.get(context, 'step')('charge', () => 1))
    expect(result).toMatchObject({ counts: { dead: 1 } })
    expect(await store.get('r:000000000000')).toMatchObject({
      errorCode: 'step_unsupported',
      errorMessage: expect.stringMatching(/The step 'charge' was not run: .* without a batch\.$/),
    })
  })

  it('names the call of each item in the ledger', async () => {
    const ids: string[] = []
    await run(numbers(3), (inputs, { call, items }) => {
      ids.push(call)
      expect(items).toEqual(numbers(3).map(n => ({ id: `00000000000${n}`, run: 'r', attempt: 1 })))
      return inputs
    })
    for (const n of numbers(3)) expect((await store.ledger(`r:00000000000${n}`))[0]).toMatchObject({ call: ids[0] })
  })

  it('adds up what its calls used: also those that failed and were halved', async () => {
    let total = 0
    const { calls } = await run(
      numbers(8),
      (inputs, context) => {
        context.used({ tokens: 10 * inputs.length })
        context.used({ dollars: 1 })
        total += 10 * inputs.length
        return poisoned(n => n === 0)(inputs, context)
      },
      { policy: { ...STEADY, attempts: 2 } },
    )
    const ids = numbers(8).map(n => `r:00000000000${n}`)
    const rows = (await Promise.all(ids.map(id => store.ledger(id)))).flat()
    const sum = (bucket: string) => rows.reduce((all, { notes }) => all + (notes?.used?.[bucket] ?? 0), 0)
    expect(calls.length).toBeGreaterThan(3)
    expect(sum('tokens')).toBe(total)
    expect(sum('dollars')).toBeCloseTo(calls.length)
  })

  it('can stand between other stages', async () => {
    const double: StageHandler<number, number> = n => n * 2
    const line = pipeline(
      'line',
      stage('before', double),
      batch('batch', inputs => inputs.map(n => n + 1), { size: 10 }),
      stage('after', double),
    )
    const active = await line.start(numbers(25), { store, clock })
    await clock.advance('10s')
    expect(await active.result).toMatchObject({ status: 'completed' })
    const values = []
    for await (const { value } of active.results()) values.push(value)
    expect(values).toEqual(numbers(25).map(n => (n * 2 + 1) * 2))
  })

  it.each([
    ['goes on', false],
    ['throws when its signal aborts', true],
  ])('is not halved when the lease of its worker is over and it %s', async (_, isListening) => {
    const calls: (readonly number[])[] = []
    const line = pipeline(
      'leases',
      batch(
        'call',
        async (inputs: readonly number[], { signal }) => {
          calls.push(inputs)
          const attempts = calls.length
          await sleep(60_000, clock, isListening && attempts === 1 ? signal : undefined)
          return inputs
        },
        { size: 100, timeout: '1h', policy: STEADY },
      ),
    )
    const heartbeat = store.heartbeat.bind(store)
    const active = await line.start(numbers(100), { store, clock, lease: '5s' })
    await clock.advance('1s')
    expect(calls).toHaveLength(1)
    store.heartbeat = () => Promise.reject(new StoreUnavailableError('The store', 'down', { wasSent: false }))
    await clock.advance('7s')
    store.heartbeat = heartbeat
    let isOver = false
    void active.result.finally(() => {
      isOver = true
    })
    for (let seconds = 0; !isOver && seconds < 1000; seconds++) await clock.advance('1s')
    expect(await active.result).toMatchObject({ status: 'completed', counts: { succeeded: 100 } })
    // Halving would make calls of 50. A call that went on may have returned early, so its result does not count.
    expect(calls.map(inputs => inputs.length)).toEqual([100, 100])
    const items = await store.list({}, { limit: 100 })
    expect(items.items.map(({ attempts }) => attempts)).toEqual(numbers(100).map(() => 0))
  })
})
