import { afterEach, describe, expect, it, vi } from 'vitest'
import { FinalError, type PolicyInput } from '../policy/index.js'
import { sinkFailures, type WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { type Attempt, CircuitBreaker, type RetryOptions, retry } from './index.js'

const START = Date.UTC(2024, 1, 29)
const fixed: PolicyInput = { attempts: 3, backoff: { kind: 'fixed', base: '1s' }, jitter: 'none' }
const failure = new Error('down')
const down = () => Promise.reject(failure)
const never = () => new Promise<never>(() => {})
const unknown = { class: 'retryable', code: 'unknown' }
const limited = { status: 429, headers: { 'retry-after': '7' } }

afterEach(() => {
  vi.restoreAllMocks()
})

/** Makes a call to its end, and gives what was heard of it. */
async function eventsOf(
  fn: (attempt: Attempt) => unknown,
  policy: PolicyInput,
  options: RetryOptions = {},
  meanwhile: (clock: FakeClock) => unknown = () => {},
): Promise<WorkEvent[]> {
  const clock = fakeClock(START)
  const events: WorkEvent[] = []
  const sink = (event: WorkEvent) => void events.push(event)
  const call = retry(fn, policy, { id: '1', name: 'load', clock, sink, ...options })
  const settled = Promise.allSettled([call])
  await meanwhile(clock)
  await clock.runAll()
  await settled
  return events
}

/** The events without their time and their work. */
function told(events: readonly WorkEvent[]): object[] {
  return events.map(({ work, at, ...rest }) => rest)
}

/** The events in one line: each type, with the number of its attempt and why it was given up. */
function line(events: readonly WorkEvent[]): string {
  const short = (event: WorkEvent) =>
    `${event.type}${'attempt' in event ? ` ${event.attempt}` : ''}${'reason' in event ? ` ${event.reason}` : ''}`
  return events.map(short).join(', ')
}

describe('the events of a call', () => {
  it('that succeeds at once: started, succeeded', async () => {
    expect(told(await eventsOf(() => 'result', fixed))).toMatchObject([
      { type: 'attempt_started', attempt: 1, maxAttempts: 3, deferrals: 0 },
      { type: 'attempt_succeeded', attempt: 1, durationMs: 0 },
    ])
  })

  it('that succeeds after retries: each start, each retry, the success', async () => {
    const events = await eventsOf(({ attempt }) => (attempt < 3 ? down() : 'result'), fixed)
    const failed = { maxAttempts: 3, durationMs: 0, failure, verdict: unknown }
    expect(events).toEqual([
      expect.objectContaining({ type: 'attempt_started', at: START, attempt: 1 }),
      expect.objectContaining({
        ...failed,
        type: 'retry_scheduled',
        at: START,
        attempt: 1,
        delayMs: 1000,
        nextAttemptAt: START + 1000,
      }),
      expect.objectContaining({ type: 'attempt_started', at: START + 1000, attempt: 2 }),
      expect.objectContaining({
        ...failed,
        type: 'retry_scheduled',
        at: START + 1000,
        attempt: 2,
        delayMs: 1000,
        nextAttemptAt: START + 2000,
      }),
      expect.objectContaining({ type: 'attempt_started', at: START + 2000, attempt: 3 }),
      expect.objectContaining({ type: 'attempt_succeeded', at: START + 2000, attempt: 3, durationMs: 0 }),
    ])
  })

  it('that is exhausted: N - 1 retries, then given up once', async () => {
    const events = await eventsOf(down, fixed)
    expect(line(events)).toBe(
      'attempt_started 1, retry_scheduled 1, attempt_started 2, retry_scheduled 2, ' +
        'attempt_started 3, gave_up 3 attempts_exhausted',
    )
    expect(told(events).at(-1)).toEqual({
      type: 'gave_up',
      attempt: 3,
      maxAttempts: 3,
      durationMs: 0,
      failure,
      verdict: unknown,
      reason: 'attempts_exhausted',
    })
  })

  it('that fails for good: no retry', async () => {
    const events = await eventsOf(() => Promise.reject(new FinalError('no')), fixed)
    expect(line(events)).toBe('attempt_started 1, gave_up 1 final_error')
    expect(events.at(-1)).toMatchObject({ verdict: { class: 'final', code: 'final' } })
  })

  it('that times out: each timeout, and what follows from it', async () => {
    const events = await eventsOf(never, { ...fixed, attempts: 2, timeout: '5s' })
    expect(line(events)).toBe(
      'attempt_started 1, timed_out 1, retry_scheduled 1, attempt_started 2, timed_out 2, gave_up 2 attempts_exhausted',
    )
    expect(events[1]).toMatchObject({ type: 'timed_out', attempt: 1, timeoutMs: 5000 })
    expect(events[2]).toMatchObject({ durationMs: 5000, verdict: { class: 'retryable', code: 'timeout' } })
  })

  it('whose deadline passes: a timeout, then given up for that', async () => {
    const events = await eventsOf(never, fixed, { deadline: '5s' })
    expect(line(events)).toBe('attempt_started 1, timed_out 1, gave_up 1 deadline_passed')
  })

  it('whose deadline has passed before the start: given up without an attempt', async () => {
    const events = await eventsOf(() => 'result', fixed, { deadline: 0 })
    expect(line(events)).toBe('gave_up 0 deadline_passed')
  })

  it('whose time to live is over: given up for that', async () => {
    expect(line(await eventsOf(down, { ...fixed, ttl: '1s' }))).toBe('attempt_started 1, gave_up 1 ttl_expired')
  })

  it('that a rate limit defers: the number of the attempt stays, and the deferrals are counted', async () => {
    let calls = 0
    const events = await eventsOf(() => (++calls < 3 ? Promise.reject(limited) : 'result'), { ...fixed, deferrals: 5 })
    expect(line(events)).toBe(
      'attempt_started 1, deferred 1, attempt_started 1, deferred 1, attempt_started 1, attempt_succeeded 1',
    )
    const starts = events.filter(({ type }) => type === 'attempt_started')
    expect(told(starts)).toMatchObject([{ deferrals: 0 }, { deferrals: 1 }, { deferrals: 2 }])
    expect(events[1]).toMatchObject({
      delayMs: 7000,
      nextAttemptAt: START + 7000,
      verdict: { class: 'rate_limited', code: 'http_429', retryAfterMs: 7000 },
    })
  })

  it('aborted before the start: given up without an attempt', async () => {
    const events = await eventsOf(never, fixed, { signal: AbortSignal.abort('too late') })
    expect(told(events)).toEqual([
      {
        type: 'gave_up',
        attempt: 0,
        maxAttempts: 3,
        durationMs: 0,
        failure: 'too late',
        verdict: { class: 'final', code: 'aborted' },
        reason: 'aborted',
      },
    ])
  })

  it('aborted during an attempt: given up in that attempt', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const events = await eventsOf(never, { ...fixed, timeout: '1h' }, { signal }, async clock => {
      await clock.advance('3s')
      controller.abort('enough')
    })
    expect(line(events)).toBe('attempt_started 1, gave_up 1 aborted')
    expect(events.at(-1)).toMatchObject({
      durationMs: 3000,
      failure: 'enough',
      verdict: { class: 'final', code: 'aborted' },
    })
  })

  it('aborted during a wait: given up after the attempt before it', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const events = await eventsOf(down, fixed, { signal }, async clock => {
      await clock.advance('1.5s')
      controller.abort('enough')
    })
    expect(line(events)).toBe(
      'attempt_started 1, retry_scheduled 1, attempt_started 2, retry_scheduled 2, gave_up 2 aborted',
    )
  })

  it('aborted while it is deferred: given up after the attempt that was made', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const policy = { ...fixed, deferrals: 5 }
    const events = await eventsOf(
      () => Promise.reject(limited),
      policy,
      { signal },
      async clock => {
        await clock.advance('1s')
        controller.abort('enough')
      },
    )
    expect(line(events)).toBe('attempt_started 1, deferred 1, gave_up 1 aborted')
  })

  it('that the breaker refuses: given up without an attempt', async () => {
    const clock = fakeClock(START)
    const breaker = new CircuitBreaker('payments', { minimumCalls: 1 })
    await retry(down, { attempts: 1 }, { clock, breaker }).catch(() => {})
    const events = await eventsOf(() => 'result', fixed, { clock, breaker })
    expect(told(events)).toMatchObject([
      {
        type: 'gave_up',
        attempt: 0,
        reason: 'breaker_open',
        failure: { name: 'BreakerOpenError', breaker: 'payments' },
        verdict: { class: 'rate_limited', code: 'breaker_open' },
      },
    ])
  })

  it('that the breaker refuses half-way: given up after the attempt before it', async () => {
    const breaker = new CircuitBreaker('payments', { minimumCalls: 1 })
    const events = await eventsOf(down, fixed, { breaker })
    expect(line(events)).toBe('attempt_started 1, retry_scheduled 1, gave_up 1 breaker_open')
    expect(events.at(-1)).toMatchObject({ failure: { cause: failure } })
  })

  it('say of each what it is about, as the caller described it', async () => {
    const description = {
      id: '42',
      name: 'charge card',
      category: 'API_REQUEST',
      tenantId: 'acme',
      correlationId: 'c-1',
      traceId: 't-1',
      context: { order: 7 },
    }
    const events = await eventsOf(({ attempt }) => (attempt === 1 ? down() : 'result'), fixed, description)
    for (const { work } of events) expect(work).toEqual({ kind: 'call', ...description })
  })

  it('have an id and a name even if the caller gave none, the same throughout', async () => {
    const one = await eventsOf(down, fixed, { id: undefined, name: undefined })
    const other = await eventsOf(down, fixed, { id: undefined, name: undefined })
    expect(new Set(one.map(({ work }) => work.id)).size).toBe(1)
    expect(one[0]?.work).toMatchObject({ id: expect.stringMatching(/^.{8,}$/), name: 'call' })
    expect(one[0]?.work.id).not.toBe(other[0]?.work.id)
  })

  it('have an id of their own however many calls were given none', async () => {
    const ids = new Set<string>()
    const sink = ({ work }: WorkEvent) => void ids.add(work.id)
    for (let i = 0; i < 2500; i++) await retry(() => 'result', fixed, { sink })
    expect(ids.size).toBe(2500)
  })

  it('have durations by the stopwatch, whatever happens to the clock on the wall', async () => {
    const events = await eventsOf(never, { ...fixed, attempts: 1, timeout: '5s' }, {}, async clock => {
      await clock.advance('1s')
      clock.setNow(0)
    })
    expect(events.at(-1)).toMatchObject({ type: 'gave_up', durationMs: 5000, at: 4000 })
  })
})

describe('a sink that fails', () => {
  const broken: [how: string, sink: () => void | Promise<void>][] = [
    [
      'throws',
      () => {
        throw new Error('disk full')
      },
    ],
    ['rejects', () => Promise.reject(new Error('disk full'))],
  ]
  it.each(broken)('because it %s changes nothing for the call, but is counted', async (_, fail) => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const clock = fakeClock()
    const sink = () => fail()
    let calls = 0
    const call = retry(() => (++calls < 3 ? down() : 'result'), { ...fixed, timeout: '5s' }, { clock, sink })
    await Promise.all([expect(call).resolves.toBe('result'), clock.runAll()])
    expect(calls).toBe(3)
    expect(sinkFailures(sink)).toBe(6)
    expect(warned).toHaveBeenCalledTimes(1)
    expect(clock.timers).toBe(0)
  })

  it('because it never settles does not hold up the call', async () => {
    await expect(retry(() => 'result', fixed, { sink: never })).resolves.toBe('result')
  })
})
