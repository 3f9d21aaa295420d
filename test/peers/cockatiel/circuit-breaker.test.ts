import { BreakerOpenError, CircuitBreaker, type CircuitBreakerOptions, OptionError } from 'redrive'
import { type FakeClock, fakeClock } from 'redrive/testing'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import { breakerPolicy, handleAll, handleType } from './adapter.js'

class MyException extends Error {}

let clock: FakeClock
const fails = () => {
  throw new MyException()
}

function circuitBreaker(options: CircuitBreakerOptions = {}) {
  const breaker = new CircuitBreaker('cockatiel', { consecutiveFailures: 2, openFor: 1000, ...options })
  const policy = breakerPolicy(handleType(MyException), breaker, clock)
  const open = async () => {
    for (let i = 0; i < 2; i++) await expect(policy.execute(fails)).rejects.toThrow(MyException)
  }
  return Object.assign(policy, { open })
}

beforeEach(() => {
  clock = fakeClock()
})

describe('CircuitBreakerPolicy', () => {
  it('allows calls when open', async () => {
    expect(await circuitBreaker().execute(() => 42)).toBe(42)
  })

  it('opens after failing calls', async () => {
    const p = circuitBreaker()
    const fn = vi.fn(fails)
    await expect(p.execute(fn)).rejects.toThrow(MyException)
    expect(p.state).toBe('closed')
    expect(p.changes).toEqual([])
    await expect(p.execute(fn)).rejects.toThrow(MyException)
    expect(p.state).toBe('open')
    await expect(p.execute(fn)).rejects.toThrow(BreakerOpenError)
    expect(p.changes).toEqual(['open'])
    expect(fn).toHaveBeenCalledTimes(2)
  })

  it('closes if the half open test succeeds', async () => {
    const p = circuitBreaker()
    await p.open()
    await clock.advance(1000)
    const result = p.execute(async () => 42)
    expect(p.state).toBe('half_open')
    expect(await result).toBe(42)
    expect(p.state).toBe('closed')
    expect(p.changes).toEqual(['open', 'half_open', 'closed'])
  })

  it('uses the given backoff factory to decide whether to enter the half open state', async () => {
    const p = circuitBreaker({ openFor: [1000, 2000] })
    await p.open()
    await clock.advance(1000)
    await expect(p.execute(fails)).rejects.toThrow(MyException)
    expect(p.state).toBe('open')
    await clock.advance(1000)
    await expect(p.execute(fails)).rejects.toThrow(BreakerOpenError)
    await clock.advance(1000)
    expect(await p.execute(async () => 42)).toBe(42)
    expect(p.changes).toEqual(['open', 'half_open', 'open', 'half_open', 'closed'])
  })

  it('resets the backoff when closing the circuit', async () => {
    const p = circuitBreaker({ openFor: [1, 2] })
    for (let i = 0; i < 2; i++) {
      await p.open()
      await clock.advance(1)
      await expect(p.execute(fails)).rejects.toThrow(MyException)
      await clock.advance(1)
      await expect(p.execute(() => 42)).rejects.toThrow(BreakerOpenError)
      await clock.advance(1)
      expect(await p.execute(() => 42)).toBe(42)
    }
  })

  it('samples multiple half-open calls before closing', async () => {
    const p = circuitBreaker({ trials: 10 })
    await p.open()
    await clock.advance(1000)
    for (let i = 0; i < 9; i++) {
      expect(await p.execute(() => 42)).toBe(42)
      expect(p.state).toBe('half_open')
    }
    expect(await p.execute(() => 42)).toBe(42)
    expect(p.changes).toEqual(['open', 'half_open', 'closed'])
  })

  it('validates half-open sampling options', () => {
    for (const trials of [0, -1, 0.5, Number.NaN]) expect(() => circuitBreaker({ trials })).toThrow(OptionError)
  })

  it('re-opens if the half open fails', async () => {
    const p = circuitBreaker()
    await p.open()
    await clock.advance(1000)
    await expect(p.execute(fails)).rejects.toThrow(MyException)
    expect(p.state).toBe('open')
  })

  it('handles isolation correctly', async () => {
    const p = circuitBreaker()
    const handle1 = p.isolate()
    const handle2 = p.isolate()
    expect(p.changes).toEqual(['open by hand'])
    await expect(p.execute(() => 42)).rejects.toThrow(BreakerOpenError)
    handle1.dispose()
    expect(p.state).toBe('open')
    handle2.dispose()
    expect(p.state).toBe('closed')
    expect(p.changes).toEqual(['open by hand', 'closed by hand'])
    expect(await p.execute(() => 42)).toBe(42)
  })

  it('links parent cancellation token', async () => {
    const parent = new AbortController()
    const breaker = new CircuitBreaker('linked', { consecutiveFailures: 3 })
    const call = breakerPolicy(handleAll, breaker, clock).execute(({ signal }) => {
      expect(signal.aborted).toBe(false)
      parent.abort()
      expect(signal.aborted).toBe(true)
    }, parent.signal)
    // Redrive ends with the reason of the abort, though the function returned.
    await expect(call).rejects.toBe(parent.signal.reason)
  })
})

describe('CircuitBreakerPolicy and aborts', () => {
  it('aborts function execution if half open test succeeds', async () => {
    const p = circuitBreaker()
    await p.open()
    await clock.advance(1000)
    const trial = p.execute(async () => 42)
    const fn = vi.fn()
    await expect(p.execute(fn, AbortSignal.abort('enough'))).rejects.toBe('enough')
    expect(fn).not.toHaveBeenCalled()
    expect(await trial).toBe(42)
    expect(p.state).toBe('closed')
    expect(p.changes).toEqual(['open', 'half_open', 'closed'])
  })
})

/** Feeds outcomes to a breaker; says after each whether it is open. */
function window(options: CircuitBreakerOptions) {
  const breaker = new CircuitBreaker('window', options)
  const record = (succeeded: boolean) => {
    breaker.record(breaker.admit(clock.monotonic()), succeeded, clock.monotonic())
    return breaker.state === 'open'
  }
  return { breaker, success: () => record(true), failure: () => record(false) }
}

describe('ConsecutiveBreaker', () => {
  it('works', () => {
    const c = window({ consecutiveFailures: 3 })
    expect([c.failure(), c.failure(), c.failure()]).toEqual([false, false, true])
    c.breaker.close()
    c.success()
    expect([c.failure(), c.failure(), c.failure()]).toEqual([false, false, true])
  })
})

describe('CountBreaker', () => {
  const counting = { failureRate: 0.5, window: { calls: 100 }, minimumCalls: 50 }

  it.each([
    ['threshold is out of range', { failureRate: -1 }],
    ['threshold is out of range', { failureRate: 0 }],
    ['threshold is out of range', { failureRate: 10 }],
    ['size is invalid', { window: { calls: -1 } }],
    ['size is invalid', { window: { calls: 0 } }],
    ['size is invalid', { window: { calls: 0.5 } }],
    ['minimumNumberOfCalls is invalid', { minimumCalls: -1 }],
    ['minimumNumberOfCalls is invalid', { minimumCalls: 0 }],
    ['minimumNumberOfCalls is invalid', { minimumCalls: 0.5 }],
    ['minimumNumberOfCalls is invalid', { minimumCalls: 101 }],
  ])('rejects if %s', (_, options) => {
    expect(() => window({ ...counting, ...options })).toThrow(OptionError)
  })

  it('correctly wraps around when reaching the end of the window', () => {
    const b = window({ failureRate: 0.5, window: { calls: 5 } })
    for (let i = 0; i < 9; i++) expect(i % 3 === 0 ? b.failure() : b.success()).toBe(false)
    // One of the last five has failed. The next failure makes it two, and the one after that three.
    expect([b.failure(), b.failure()]).toEqual([false, true])
  })

  it('does not open as long as the minimum number of calls has not been reached', () => {
    const b = window(counting)
    for (let i = 0; i < 49; i++) expect(b.failure()).toBe(false)
  })

  it('does not open when the minimum number of calls has been reached but the threshold has not been surpassed', () => {
    const b = window(counting)
    for (let i = 0; i < 26; i++) b.success()
    for (let i = 0; i < 25; i++) expect(b.failure()).toBe(false)
  })

  it('opens when the minimum number of calls has been reached and threshold has been surpassed', () => {
    const b = window(counting)
    for (let i = 0; i < 24; i++) b.success()
    for (let i = 0; i < 25; i++) expect(b.failure()).toBe(false)
    expect(b.failure()).toBe(true)
  })

  it('resets when recovering from a half-open', async () => {
    const b = window(counting)
    for (let i = 0; i < 100; i++) b.failure()
    expect(b.breaker.state).toBe('open')
    await clock.advance('30s')
    b.success()
    expect(b.breaker.state).toBe('closed')
    expect(b.failure()).toBe(false)
  })
})

describe('SamplingBreaker', () => {
  // Three requests a second over five seconds.
  const sampling = { failureRate: 0.5, window: '5s', minimumCalls: 15 } as const

  it('rejects if threshold out of range', () => {
    for (const failureRate of [-1, 0, 10]) expect(() => window({ ...sampling, failureRate })).toThrow(OptionError)
  })

  it('increments and wraps buckets correctly', async () => {
    const b = window({ ...sampling, failureRate: 0.34, minimumCalls: 60 })
    for (let i = 0; i < 7; i++) {
      for (let k = 0; k < i; k++) expect([b.failure(), b.success(), b.success()]).toEqual([false, false, false])
      await clock.advance(1000)
    }
    // Of the last five seconds 18 failures and 36 successes are left: four more failures are 22 of 58, too few to judge.
    expect([b.failure(), b.failure(), b.failure(), b.failure(), b.failure()]).toEqual([
      false,
      false,
      false,
      false,
      false,
    ])
    expect(b.failure()).toBe(true)
  })

  it('does not start failing if below threshold rps', async () => {
    const b = window(sampling)
    for (let i = 0; i < 30; i++) {
      expect(b.failure()).toBe(false)
      await clock.advance(500)
    }
  })

  it('fails once above rps', async () => {
    const b = window(sampling)
    for (let i = 0; i < 14; i++) {
      await clock.advance(300)
      expect(b.failure()).toBe(false)
    }
    expect(b.failure()).toBe(true)
  })

  it('calculates rps correctly over time', async () => {
    for (let runLength = 10; runLength < 20; runLength++) {
      const b = window({ ...sampling, failureRate: 0.51 })
      for (let i = 0; i < runLength; i++) {
        b.success()
        expect(b.failure()).toBe(false)
        await clock.advance(250)
      }
      expect(b.failure()).toBe(true)
    }
  })

  it('resets when recovering from a half-open', async () => {
    const b = window(sampling)
    for (let i = 0; i < 15; i++) b.failure()
    expect(b.breaker.state).toBe('open')
    await clock.advance('30s')
    b.success()
    expect(b.failure()).toBe(false)
  })
})
