import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { circuitBreaker, retry } from '../call/index.js'
import { FinalError, RateLimitedError } from '../policy/index.js'
import { fakeClock } from '../testing/index.js'
import { MinuteCount } from './minute-count.js'
import { type RetryAlert, type RetryPatternsOptions, retryPatterns } from './patterns.js'
import { emit, sinkFailures } from './sink.js'
import type { RetryScheduled } from './work-events.js'

// The warning of a failed sink is expected here; it need not be printed.
process.removeAllListeners('warning')

function watched(options: RetryPatternsOptions = {}) {
  const clock = fakeClock()
  const sink = retryPatterns({ clock, ...options })
  async function run(fn: () => unknown, more: object = {}) {
    const given = { clock, sink, category: 'API', ...more }
    const call = retry(fn, { attempts: 3, backoff: 'none', deferrals: 5 }, given).catch(() => undefined)
    await clock.runAll()
    await call
  }
  return { clock, sink, run }
}

function failing(times: number, failure: unknown = new Error('boom')) {
  let calls = 0
  return () => {
    if (++calls <= times) throw failure
  }
}

function retryOf(category: string | undefined): RetryScheduled {
  return {
    type: 'retry_scheduled',
    work: { kind: 'call', id: 'w-1', name: 'work', category },
    at: 0,
    attempt: 1,
    maxAttempts: 3,
    durationMs: 1,
    failure: new Error('boom'),
    verdict: { class: 'retryable', code: 'unknown' },
    delayMs: 1000,
    nextAttemptAt: 1000,
  }
}

describe('the summary', () => {
  test('has calls, attempts, success rate and average attempts, category by category', async () => {
    const { sink, run } = watched()
    await run(failing(0))
    await run(failing(2))
    await run(failing(9))
    await run(failing(1, new FinalError('no')))
    await run(failing(0), { category: undefined })
    expect(sink.summary()).toEqual({
      API: { calls: 4, totalAttempts: 8, successRate: 0.5, averageAttempts: 2, retriesPerMinute: 4 },
      DEFAULT: { calls: 1, totalAttempts: 1, successRate: 1, averageAttempts: 1, retriesPerMinute: 0 },
    })
  })

  test('is empty at first, and has no rates for a category in which nothing has ended', () => {
    const { sink } = watched()
    expect(sink.summary()).toEqual({})
    emit(sink, retryOf('API'))
    expect(sink.summary().API).toEqual({
      calls: 0,
      totalAttempts: 1,
      successRate: undefined,
      averageAttempts: undefined,
      retriesPerMinute: 1,
    })
  })

  test('counts a deferral as a retry but not as an attempt', async () => {
    const { sink, run, clock } = watched()
    const limited = new RateLimitedError('slow down', { retryAfterMs: 1000 })
    await run(failing(2, limited))
    expect(sink.summary().API).toMatchObject({ calls: 1, totalAttempts: 1, averageAttempts: 1, retriesPerMinute: 2 })
    await clock.advance('2m')
    expect(sink.summary().API).toMatchObject({ calls: 1, totalAttempts: 1, retriesPerMinute: 0 })
  })

  test('leaves aborted calls out', async () => {
    const { sink, run } = watched()
    await run(failing(9), { signal: AbortSignal.abort() })
    expect(sink.summary().API).toMatchObject({ calls: 0, totalAttempts: 0, successRate: undefined })
  })

  test('counts a call that a breaker kept back as a failed one without an attempt', async () => {
    const { sink, run } = watched()
    const breaker = circuitBreaker('patterns test', { minimumCalls: 1, failureRate: 1 })
    await run(failing(9), { breaker })
    expect(sink.summary().API).toMatchObject({ calls: 1, totalAttempts: 1, successRate: 0, averageAttempts: 1 })
    await run(failing(9), { breaker })
    expect(sink.summary().API).toMatchObject({ calls: 2, totalAttempts: 1, averageAttempts: 0.5 })
  })

  test('has a bounded number of categories, whatever they are called', () => {
    const { sink } = watched()
    emit(sink, retryOf('__proto__'))
    for (let i = 0; i < 3000; i++) emit(sink, retryOf(`tenant ${i}`))
    const summary = sink.summary()
    expect(Object.keys(summary)).toHaveLength(1001)
    expect(Object.hasOwn(summary, '__proto__')).toBe(true)
    expect(summary.OTHER?.totalAttempts).toBe(2001)
  })
})

describe('the alert', () => {
  test('comes once when a category passes the threshold, and again only after it has fallen below', async () => {
    const alerts: RetryAlert[] = []
    const { clock, sink } = watched({ alertAbovePerMinute: 3, onAlert: alert => void alerts.push(alert) })
    const retries = async (count: number, seconds: number) => {
      for (let i = 0; i < count; i++) {
        emit(sink, retryOf('API'))
        await clock.advance(seconds * 1000)
      }
    }
    await retries(3, 1)
    expect(alerts).toEqual([])
    await retries(1, 1)
    expect(alerts).toEqual([{ category: 'API', retriesPerMinute: 4, alertAbovePerMinute: 3 }])
    await retries(100, 1)
    expect(alerts).toHaveLength(1)
    // At the threshold, and above it now and then, is not below it.
    await clock.advance('16s')
    await retries(20, 17)
    expect(alerts).toHaveLength(1)
    await clock.advance('1m')
    await retries(4, 1)
    expect(alerts).toHaveLength(2)
  })

  test('is for each category by itself', () => {
    const alerts: string[] = []
    const { sink } = watched({ alertAbovePerMinute: 1, onAlert: ({ category }) => void alerts.push(category) })
    for (const category of ['A', 'B', undefined, 'A', 'B', 'A']) emit(sink, retryOf(category))
    expect(alerts).toEqual(['A', 'B'])
  })

  test('comes again and again where any retry is too many', async () => {
    let alerts = 0
    const { clock, sink } = watched({ alertAbovePerMinute: 0, onAlert: () => void alerts++ })
    emit(sink, retryOf('API'))
    emit(sink, retryOf('API'))
    await clock.advance('61s')
    emit(sink, retryOf('API'))
    expect(alerts).toBe(2)
  })

  test('that fails is a failure of the sink, and is not raised for every retry', async () => {
    const { sink } = watched({ alertAbovePerMinute: 0, onAlert: () => Promise.reject(new Error('pager down')) })
    emit(sink, retryOf('API'))
    emit(sink, retryOf('API'))
    await new Promise(resolve => setImmediate(resolve))
    expect(sinkFailures(sink)).toBe(1)
    expect(sink.summary().API?.retriesPerMinute).toBe(2)
  })

  test('needs a threshold that is one', () => {
    expect(() => retryPatterns({ alertAbovePerMinute: Number.NaN })).toThrow(`'alertAbovePerMinute' must be`)
    expect(() => retryPatterns({ alertAbovePerMinute: -1 })).toThrow(`'alertAbovePerMinute' must be`)
  })
})

test('the count of a minute is that of its seconds, however time passes', () => {
  const steps = fc.array(fc.oneof(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 0, max: 200_000 })))
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10 ** 9 }), steps, (start, gaps) => {
      const minute = new MinuteCount()
      const times: number[] = []
      let now = start
      for (const gap of gaps) {
        now += gap
        minute.add(now)
        times.push(now)
        const inWindow = times.filter(time => Math.floor(now / 1000) - Math.floor(time / 1000) < 60)
        expect(minute.count(now)).toBe(inWindow.length)
      }
    }),
  )
})
