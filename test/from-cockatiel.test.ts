import {
  BreakerOpenError,
  Bulkhead,
  BulkheadFullError,
  CircuitBreaker,
  RetryExhaustedError,
  retry,
  TimeoutError,
  until,
} from 'redrive'
import { on } from 'redrive/telemetry'
import { fakeClock } from 'redrive/testing'
import { describe, expect, it } from 'vitest'

/*
 * Behaviour that users of cockatiel rely on, one test for each row of the table in docs/from/cockatiel.md that promises it.
 * These are tests of ours, on our API.
 */

const down = () => Promise.reject(new Error('down'))

/** Lets a call run to its end on a fake clock. */
async function ended<T>(call: Promise<T>, clock: ReturnType<typeof fakeClock>): Promise<T> {
  await Promise.allSettled([call, clock.runAll()])
  return call
}

describe('a retry', () => {
  it('of maxAttempts: 4 is one of 5 attempts', async () => {
    const clock = fakeClock()
    let calls = 0
    const call = retry(() => ++calls && down(), { attempts: 5, retryOn: 'all' }, { clock })
    await expect(ended(call, clock)).rejects.toMatchObject({ cause: new Error('down') })
    expect(calls).toBe(5)
  })

  it('of one class of errors gives up on all others', async () => {
    class Busy extends Error {}
    const clock = fakeClock()
    const failures = [new Busy(), new TypeError('a bug'), new Busy()]
    const call = retry(() => Promise.reject(failures.shift()), { retryOn: [Busy] }, { clock })
    await expect(ended(call, clock)).rejects.toThrow('a bug')
    expect(failures).toHaveLength(1)
  })

  it('by a predicate on the result goes on until the result is wanted, and keeps the last one', async () => {
    const clock = fakeClock()
    let n = 0
    const next = (wanted: number) =>
      until(
        () => ++n,
        result => result >= wanted,
      )
    expect(await ended(retry(next(3), { attempts: 5 }, { clock }), clock)).toBe(3)
    const failure = await ended(retry(next(100), { attempts: 2 }, { clock }), clock).catch((error: unknown) => error)
    if (!(failure instanceof RetryExhaustedError)) throw failure
    expect(failure.cause).toMatchObject({ result: 5 })
  })

  it('waits as a list of delays says, and tells a listener of each wait and of the end', async () => {
    const clock = fakeClock()
    const heard: unknown[] = []
    const sink = on({
      retry_scheduled: ({ attempt, delayMs }) => heard.push([attempt, delayMs]),
      gave_up: ({ failure }) => heard.push(failure),
    })
    const policy = { attempts: 4, backoff: [100, 200, 500], jitter: 'none', retryOn: 'all' } as const
    await ended(retry(down, policy, { clock, sink }), clock).catch(() => {})
    expect(heard).toEqual([[1, 100], [2, 200], [3, 500], new Error('down')])
  })
})

describe('a timeout', () => {
  it('aborts the signal of the attempt, and rejects although the function goes on', async () => {
    const clock = fakeClock()
    let signal: AbortSignal | undefined
    const hang = (attempt: { readonly signal: AbortSignal }) => {
      signal = attempt.signal
      return new Promise<never>(() => {})
    }
    await expect(ended(retry(hang, { attempts: 1, timeout: '2s' }, { clock }), clock)).rejects.toMatchObject({
      cause: expect.any(TimeoutError),
    })
    expect(signal?.aborted).toBe(true)
  })
})

describe('a circuit breaker', () => {
  const setUp = (options: ConstructorParameters<typeof CircuitBreaker>[1]) => {
    const clock = fakeClock()
    const breaker = new CircuitBreaker('users', options)
    const call = (fn: () => unknown) => retry(fn, { attempts: 1, retryOn: 'all' }, { breaker, clock })
    const fail = async (times: number) => {
      for (let i = 0; i < times; i++) await call(down).catch(() => {})
    }
    return { clock, breaker, call, fail }
  }

  it('opens after failures in a row, admits one call after its time, and closes when that succeeds', async () => {
    const { clock, breaker, call, fail } = setUp({ consecutiveFailures: 5, openFor: '10s' })
    await fail(4)
    expect(breaker.state).toBe('closed')
    await fail(1)
    await expect(call(() => 'Ada')).rejects.toMatchObject({ name: 'BreakerOpenError', retryAfterMs: 10_000 })
    await clock.advance('10s')
    await expect(call(() => 'Ada')).resolves.toBe('Ada')
    expect(breaker.state).toBe('closed')
  })

  it('stays open for longer each time, as its list says', async () => {
    const { clock, breaker, fail } = setUp({ consecutiveFailures: 1, openFor: ['5s', '30s'] })
    await fail(1)
    await clock.advance('5s')
    await fail(1)
    expect(breaker.refusal(clock.monotonic()).retryAfterMs).toBe(30_000)
  })

  it('opens by the share of failures among the last calls', async () => {
    const { breaker, call, fail } = setUp({ failureRate: 0.5, window: { calls: 4 }, minimumCalls: 4 })
    await call(() => 'up')
    await call(() => 'up')
    await fail(1)
    expect(breaker.state).toBe('closed')
    await fail(1)
    expect(breaker.state).toBe('open')
  })

  it('is isolated by hand until it is closed by hand, and tells of both', async () => {
    const { clock, breaker, call } = setUp({})
    const changes: string[] = []
    breaker.onChange(({ to, isByHand }) => changes.push(`${to} ${isByHand}`))
    breaker.open()
    await clock.advance('30d')
    await expect(call(() => 'Ada')).rejects.toThrow(BreakerOpenError)
    breaker.close()
    await expect(call(() => 'Ada')).resolves.toBe('Ada')
    expect(changes).toEqual(['open true', 'closed true'])
  })
})

describe('a bulkhead', () => {
  it('runs as many as it may, queues a few more, and rejects the rest', async () => {
    const limit = new Bulkhead('users', { concurrency: 1, queue: 1 })
    const ends: (() => void)[] = []
    const run = () => limit.run(() => new Promise<void>(resolve => ends.push(resolve)))
    const first = run()
    const second = run()
    expect([limit.running, limit.waiting]).toEqual([1, 1])
    await expect(run()).rejects.toThrow(BulkheadFullError)
    for (const call of [first, second]) {
      ends.shift()?.()
      await call
    }
    expect([limit.running, limit.waiting]).toEqual([0, 0])
  })
})
