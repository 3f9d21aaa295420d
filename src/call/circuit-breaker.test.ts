import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { classify, FinalError, OptionError, type PolicyInput, policies } from '../policy/index.js'
import { fakeClock } from '../testing/index.js'
import {
  BreakerOpenError,
  type BreakerState,
  CircuitBreaker,
  type CircuitBreakerOptions,
  circuitBreaker,
  type RetryOptions,
  retry,
} from './index.js'

const once: PolicyInput = { attempts: 1 }
const down = () => Promise.reject(new Error('down'))
const never = () => new Promise<never>(() => {})

/** Takes the options of `setUp` back. */
const UNSET = { failureRate: undefined, minimumCalls: undefined, window: undefined }

/** A breaker that opens at two failures of four, looks back 10 s, and stays open for 5 s. */
function setUp(options: CircuitBreakerOptions = {}) {
  const clock = fakeClock()
  const breaker = new CircuitBreaker('payments', {
    failureRate: 0.5,
    minimumCalls: 4,
    window: '10s',
    openFor: '5s',
    ...options,
  })
  const call = (fn: () => unknown, options: RetryOptions = {}) => retry(fn, once, { clock, breaker, ...options })
  const fail = () => call(down).catch(error => error)
  const succeed = () => call(() => 'result')
  const open = async () => {
    for (let i = 0; i < 4; i++) await fail()
    expect(breaker.state).toBe('open')
  }
  const takes = (ms: number) => new Promise<void>(resolve => clock.setTimer({ wake: resolve }, ms))
  return { clock, breaker, call, fail, succeed, open, takes }
}

describe('a closed breaker', () => {
  it('lets calls through', async () => {
    const { breaker, succeed } = setUp()
    expect(breaker.state).toBe('closed')
    await expect(succeed()).resolves.toBe('result')
  })

  it('opens when enough of enough calls have failed', async () => {
    const { breaker, succeed, fail } = setUp()
    await succeed()
    await succeed()
    await fail()
    expect(breaker.state).toBe('closed')
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('does not open on fewer calls than its minimum, even if all failed', async () => {
    const { breaker, fail } = setUp()
    for (let i = 0; i < 3; i++) await fail()
    expect(breaker.state).toBe('closed')
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('does not open while the rate is below its limit', async () => {
    const { breaker, succeed, fail } = setUp({ failureRate: 0.51 })
    for (let i = 0; i < 10; i++) {
      await succeed()
      await fail()
    }
    expect(breaker.state).toBe('closed')
  })

  it('forgets what lies further back than its window', async () => {
    const { clock, breaker, fail } = setUp()
    for (let i = 0; i < 3; i++) await fail()
    await clock.advance('10s')
    for (let i = 0; i < 3; i++) await fail()
    expect(breaker.state).toBe('closed')
  })

  it('forgets old successes too', async () => {
    const { clock, breaker, succeed, fail } = setUp()
    for (let i = 0; i < 100; i++) await succeed()
    await clock.advance('10s')
    for (let i = 0; i < 4; i++) await fail()
    expect(breaker.state).toBe('open')
  })

  it('remembers what lies within its window', async () => {
    const { clock, breaker, fail } = setUp()
    for (let i = 0; i < 3; i++) {
      await fail()
      await clock.advance('2s')
    }
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('slides its window: an old failure leaves it, a younger one stays', async () => {
    const { clock, breaker, fail } = setUp({ minimumCalls: 3 })
    await fail()
    await clock.advance('6s')
    await fail()
    await clock.advance('6s')
    await fail()
    expect(breaker.state).toBe('closed')
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('does not count final failures against the service: it did answer', async () => {
    const { breaker, call } = setUp()
    for (let i = 0; i < 20; i++) await call(() => Promise.reject({ status: 404 })).catch(() => {})
    for (let i = 0; i < 20; i++) await call(() => Promise.reject(new FinalError('no'))).catch(() => {})
    expect(breaker.state).toBe('closed')
  })

  it('counts each attempt, so that a call can open it half-way and is then not repeated', async () => {
    const { clock, breaker } = setUp({ minimumCalls: 2 })
    const fn = vi.fn(down)
    const call = retry(fn, { attempts: 5, jitter: 'none' }, { clock, breaker }).catch(error => error)
    await clock.runAll()
    expect(await call).toMatchObject({ name: 'BreakerOpenError', cause: { message: 'down' } })
    expect(fn).toHaveBeenCalledTimes(2)
  })

  it('does not count an attempt that was never made because the deadline had passed', async () => {
    const { breaker, call } = setUp({ minimumCalls: 1 })
    const fn = vi.fn(() => 'result')
    await expect(call(fn, { deadline: 0 })).rejects.toMatchObject({ reason: 'deadline_passed' })
    expect(fn).not.toHaveBeenCalled()
    expect(breaker.state).toBe('closed')
  })
})

describe('an open breaker', () => {
  it('does not let calls through, and says so', async () => {
    const { clock, open, call } = setUp()
    await open()
    await clock.advance('2s')
    const fn = vi.fn(() => 'result')
    const refused = call(fn)
    await expect(refused).rejects.toThrow(BreakerOpenError)
    await expect(refused).rejects.toThrow(`'payments'`)
    await expect(refused).rejects.toMatchObject({ code: 'breaker_open', breaker: 'payments', retryAfterMs: 3000 })
    expect(fn).not.toHaveBeenCalled()
  })

  it('looks to an outer retry like a rate limit that says when to come again', async () => {
    const { open, fail } = setUp()
    await open()
    expect(classify(await fail(), policies.call, 0)).toEqual({
      class: 'rate_limited',
      code: 'breaker_open',
      retryAfterMs: 5000,
    })
  })

  it('is waited out by an outer retry', async () => {
    const { clock, open, succeed } = setUp()
    await open()
    const call = retry(succeed, { attempts: 2, jitter: 'none' }, { clock })
    await Promise.all([expect(call).resolves.toBe('result'), clock.runAll()])
    expect(clock.monotonic()).toBe(5000)
  })

  it('ignores the outcomes of calls that it let through before', async () => {
    const { clock, breaker, open, call } = setUp()
    const ends: (() => void)[] = []
    const early = call(() => new Promise<void>(resolve => ends.push(resolve)))
    await open()
    for (const end of ends) end()
    await early
    expect(breaker.state).toBe('open')
    await clock.advance('4999ms')
    await expect(call(() => 'result')).rejects.toThrow(BreakerOpenError)
  })
})

describe('a half-open breaker', () => {
  it('lets one call through after its time, and no other', async () => {
    const { clock, breaker, open, call } = setUp()
    await open()
    await clock.advance('5s')
    const probe = vi.fn(never)
    void call(probe)
    expect(breaker.state).toBe('half_open')
    expect(probe).toHaveBeenCalledTimes(1)
    for (let i = 0; i < 5; i++) await expect(call(() => 'result')).rejects.toThrow(BreakerOpenError)
  })

  it('closes when that call succeeds, and starts counting afresh', async () => {
    const { clock, breaker, open, succeed, fail } = setUp()
    await open()
    await clock.advance('5s')
    await succeed()
    expect(breaker.state).toBe('closed')
    for (let i = 0; i < 3; i++) await fail()
    expect(breaker.state).toBe('closed')
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('closes when that call fails for good: the service did answer', async () => {
    const { clock, breaker, open, call } = setUp()
    await open()
    await clock.advance('5s')
    await call(() => Promise.reject({ status: 404 })).catch(() => {})
    expect(breaker.state).toBe('closed')
  })

  it('opens again for the whole time when that call fails', async () => {
    const { clock, breaker, open, fail, succeed } = setUp()
    await open()
    await clock.advance('5s')
    await fail()
    expect(breaker.state).toBe('open')
    await clock.advance('4999ms')
    await expect(succeed()).rejects.toThrow(BreakerOpenError)
    await clock.advance(1)
    await expect(succeed()).resolves.toBe('result')
  })

  it('lets the next call through at once when that call is aborted', async () => {
    const { clock, breaker, open, call, succeed } = setUp()
    await open()
    await clock.advance('5s')
    const controller = new AbortController()
    const probe = call(never, { signal: controller.signal })
    controller.abort('enough')
    await expect(probe).rejects.toBe('enough')
    expect(breaker.state).toBe('half_open')

    const next = succeed()
    await expect(call(() => 'result')).rejects.toThrow(BreakerOpenError)
    await expect(next).resolves.toBe('result')
    expect(breaker.state).toBe('closed')
  })

  it('is not blocked for ever by a call that never ends', async () => {
    const { clock, breaker, open, call, succeed } = setUp()
    await open()
    await clock.advance('5s')
    void call(never)
    await clock.advance('4999ms')
    await expect(succeed()).rejects.toThrow(BreakerOpenError)
    await clock.advance(1)
    await expect(succeed()).resolves.toBe('result')
    expect(breaker.state).toBe('closed')
  })

  it.each([
    ['success', 'closed'],
    ['failure', 'open'],
  ])('believes a %s that comes after the next probe has begun', async (outcome, state) => {
    const { clock, breaker, open, call, takes } = setUp()
    await open()
    await clock.advance('5s')
    const late = call(() => takes(8000).then(() => (outcome === 'failure' ? down() : 'late'))).catch(() => {})
    await clock.advance('5s')
    void call(never)
    expect(breaker.state).toBe('half_open')
    await clock.advance('3s')
    await late
    expect(breaker.state).toBe(state)
  })

  it('closes under steady traffic although the service takes longer to answer than `openFor`', async () => {
    const { clock, breaker, call, fail, takes } = setUp({ ...UNSET, consecutiveFailures: 1, openFor: '100ms' })
    await fail()
    let served = 0
    for (let i = 0; i < 200; i++) {
      void call(() => takes(150)).then(
        () => served++,
        () => {},
      )
      await clock.advance(10)
    }
    await clock.advance('150ms')
    expect(breaker.state).toBe('closed')
    // All but those of the 100 ms open and the 150 ms of the first probe, which is served itself, as is the second.
    expect(served).toBe(200 - 25 + 2)
  })

  it('ignores the outcome of a probe from before it opened again', async () => {
    const { clock, breaker, open, call, fail, takes } = setUp()
    await open()
    await clock.advance('5s')
    const late = call(() => takes(12000))
    await clock.advance('5s')
    await fail()
    expect(breaker.state).toBe('open')
    await clock.advance('5s')
    void call(never)
    await clock.advance('2s')
    await late
    expect(breaker.state).toBe('half_open')
  })

  it('does not spend its one call on an attempt whose deadline has passed', async () => {
    const { clock, breaker, open, call, succeed } = setUp()
    await open()
    await clock.advance('5s')
    await call(never, { deadline: 0 }).catch(() => {})
    await expect(succeed()).resolves.toBe('result')
    expect(breaker.state).toBe('closed')
  })
})

describe('a breaker with `consecutiveFailures`', () => {
  const inARow = () => setUp({ ...UNSET, consecutiveFailures: 3 })

  it('opens at that many failures in a row, however long they take', async () => {
    const { clock, breaker, fail } = inARow()
    for (let i = 0; i < 2; i++) {
      await fail()
      await clock.advance('1h')
    }
    expect(breaker.state).toBe('closed')
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('starts over with each success, and with each answer that is final', async () => {
    const { breaker, call, fail, succeed } = inARow()
    for (let i = 0; i < 5; i++) {
      await fail()
      await fail()
      if (i % 2) await succeed()
      else await call(() => Promise.reject({ status: 404 })).catch(() => {})
    }
    expect(breaker.state).toBe('closed')
  })

  it('starts over when it has closed', async () => {
    const { clock, breaker, fail, succeed } = inARow()
    for (let i = 0; i < 3; i++) await fail()
    await clock.advance('5s')
    await succeed()
    await fail()
    await fail()
    expect(breaker.state).toBe('closed')
  })

  it('takes no rate beside it', () => {
    const make = () => new CircuitBreaker('x', { consecutiveFailures: 3, failureRate: 0.5 })
    expect(make).toThrow("'failureRate' is not for a breaker with 'consecutiveFailures'")
  })
})

describe('a breaker whose window is a number of calls', () => {
  const ofCalls = (options: CircuitBreakerOptions = {}) => setUp({ window: { calls: 4 }, ...options })

  it('judges by the last calls, however long ago they were', async () => {
    const { clock, breaker, fail, succeed } = ofCalls()
    await fail()
    await clock.advance('1h')
    for (let i = 0; i < 3; i++) await succeed()
    await fail()
    expect(breaker.state).toBe('closed') // the first failure has left the window
    await clock.advance('1h')
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('needs its minimum of calls', async () => {
    const { breaker, fail } = ofCalls({ window: { calls: 20 }, minimumCalls: 5 })
    for (let i = 0; i < 4; i++) await fail()
    expect(breaker.state).toBe('closed')
    await fail()
    expect(breaker.state).toBe('open')
  })

  it('needs a minimum that fits into its window', () => {
    expect(() => ofCalls({ minimumCalls: 5 })).toThrow("'minimumCalls' must be no more than the 4 calls of the window")
    expect(() => new CircuitBreaker('x', { window: { calls: 5 } })).not.toThrow()
  })
})

describe('a breaker that opens again and again', () => {
  it('stays open for the next entry of `openFor` each time, and starts over once it has closed', async () => {
    const { clock, breaker, open, fail, succeed } = setUp({ openFor: ['1s', '10s'] })
    await open()
    for (const openFor of [1000, 10_000, 10_000]) {
      await clock.advance(openFor - 1)
      await expect(succeed()).rejects.toMatchObject({ retryAfterMs: 1 })
      await clock.advance(1)
      await fail()
      expect(breaker.state).toBe('open')
    }
    await clock.advance('10s')
    await succeed()
    await open()
    await clock.advance('1s')
    await expect(succeed()).resolves.toBe('result')
  })
})

describe('a breaker with several probes', () => {
  it('closes after that many successes, one after another', async () => {
    const { clock, breaker, open, succeed, call } = setUp({ probes: 3 })
    await open()
    await clock.advance('5s')
    for (let i = 0; i < 2; i++) {
      await succeed()
      expect(breaker.state).toBe('half_open')
    }
    void call(never)
    await expect(succeed()).rejects.toThrow(BreakerOpenError)
    await clock.advance('5s')
    await succeed()
    expect(breaker.state).toBe('closed')
  })

  it('keeps the successes before a probe that is aborted, and does not tell of a change', async () => {
    const { clock, breaker, open, succeed, call } = setUp({ probes: 3 })
    await open()
    await clock.advance('5s')
    const changes: string[] = []
    breaker.onChange(({ to }) => changes.push(to))
    await succeed()
    await succeed()
    const controller = new AbortController()
    const probe = call(never, { signal: controller.signal })
    controller.abort('enough')
    await expect(probe).rejects.toBe('enough')
    await succeed()
    expect(changes).toEqual(['half_open', 'closed'])
  })

  it('admits the next one beside a probe that is late, and no more', async () => {
    const { clock, breaker, open, succeed, call, takes } = setUp({ probes: 3 })
    await open()
    await clock.advance('5s')
    const late = call(() => takes(6000))
    await clock.advance('5s')
    const next = call(() => takes(4000))
    await clock.advance('1s')
    await late
    await expect(succeed()).rejects.toThrow(BreakerOpenError)
    await clock.advance('3s')
    await next
    await succeed()
    expect(breaker.state).toBe('closed')
  })

  it('opens at the first that fails, and then needs all of them again', async () => {
    const { clock, breaker, open, succeed, fail } = setUp({ probes: 2 })
    await open()
    await clock.advance('5s')
    await succeed()
    await fail()
    expect(breaker.state).toBe('open')
    await clock.advance('5s')
    await succeed()
    expect(breaker.state).toBe('half_open')
    await succeed()
    expect(breaker.state).toBe('closed')
  })
})

describe('a breaker, by hand', () => {
  it('is opened, and stays open until it is closed', async () => {
    const { clock, breaker, succeed } = setUp()
    breaker.open()
    await clock.advance('30d')
    await expect(succeed()).rejects.toMatchObject({ name: 'BreakerOpenError', retryAfterMs: undefined })
    await expect(succeed()).rejects.toThrow('opened by hand')
    breaker.close()
    await expect(succeed()).resolves.toBe('result')
  })

  it('is closed although it opened by itself, and has forgotten why', async () => {
    const { breaker, open, succeed, fail } = setUp()
    await open()
    breaker.close()
    await expect(succeed()).resolves.toBe('result')
    await fail()
    await fail()
    expect(breaker.state).toBe('closed')
  })

  it('ignores the probe that was out when it was opened', async () => {
    const { clock, breaker, open, call } = setUp()
    await open()
    await clock.advance('5s')
    let end = (_: string) => {}
    const probe = call(() => new Promise<string>(resolve => (end = resolve)))
    breaker.open()
    end('late')
    await probe
    expect(breaker.state).toBe('open')
  })
})

describe('the listener of a breaker', () => {
  it('hears of each change of state, and of nothing else, until it is removed', async () => {
    const { clock, breaker, open, succeed, fail } = setUp({ probes: 2 })
    const changes: string[] = []
    const stop = breaker.onChange(({ breaker, from, to, isByHand }) =>
      changes.push(`${breaker}: ${from} → ${to}${isByHand ? ' by hand' : ''}`),
    )
    await open()
    await clock.advance('5s')
    await fail()
    await clock.advance('5s')
    await succeed()
    await succeed()
    breaker.open()
    breaker.open()
    breaker.close()
    stop()
    breaker.open()
    expect(changes).toEqual([
      'payments: closed → open',
      'payments: open → half_open',
      'payments: half_open → open',
      'payments: open → half_open',
      'payments: half_open → closed',
      'payments: closed → open by hand',
      'payments: open → closed by hand',
    ])
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('broken')
      },
    ],
    ['rejects', () => Promise.reject(new Error('broken'))],
  ])('that %s is a warning, and touches neither the call nor other listeners', async (_, broken) => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const { breaker, succeed } = setUp()
    const other = vi.fn()
    breaker.onChange(broken)
    breaker.onChange(other)
    breaker.open()
    breaker.close()
    await expect(succeed()).resolves.toBe('result')
    expect(other).toHaveBeenCalledTimes(2)
    expect(warned).toHaveBeenCalledWith(expect.objectContaining({ code: 'listener_failed' }))
    warned.mockRestore()
  })
})

describe('a breaker, whatever happens to it', () => {
  it('does what a plain list of outcomes would make it do', () => {
    const WINDOW = 1000
    const OPEN_FOR = 300
    const MINIMUM = 4
    type Step = { wait: number; then: 'admit' | 'success' | 'failure' | 'release'; which: number }
    const step: fc.Arbitrary<Step> = fc.record({
      wait: fc.oneof({ weight: 3, arbitrary: fc.nat(60) }, fc.constantFrom(100, 299, 300, 301, 999, 1000, 5000)),
      then: fc.oneof(
        { weight: 4, arbitrary: fc.constant('admit' as const) },
        { weight: 4, arbitrary: fc.constantFrom('success' as const, 'failure' as const, 'failure' as const) },
        { weight: 1, arbitrary: fc.constant('release' as const) },
      ),
      which: fc.nat(3),
    })

    fc.assert(
      fc.property(fc.array(step, { maxLength: 80 }), fc.integer({ min: 1, max: 3 }), (steps, probes) => {
        const breaker = new CircuitBreaker('model', {
          window: WINDOW,
          openFor: OPEN_FOR,
          minimumCalls: MINIMUM,
          failureRate: 0.5,
          probes,
        })
        const changes: BreakerState[] = []
        breaker.onChange(({ to }) => changes.push(to))
        let now = 12_345
        // The model. Outcomes are remembered by the tenth of the window that they fell into.
        const tenth = (at: number) => Math.floor(at / (WINDOW / 10))
        let state = 'closed' as BreakerState
        let outcomes: { at: number; ok: boolean }[] = []
        let until = 0
        let left = probes
        const entered: BreakerState[] = []
        /** Whoever is still out, and whether anything has changed since that makes the outcome stale. */
        let out: { admission: number; isStale: boolean }[] = []
        const admitted: number[] = []
        const enter = (next: BreakerState) => {
          state = next
          entered.push(next)
          for (const call of out) call.isStale = true
        }

        for (const { wait, then, which } of steps) {
          now += wait
          if (then === 'admit') {
            const admission = breaker.admit(now)
            expect(admission !== undefined).toBe(state === 'closed' || now >= until)
            if (admission === undefined) continue
            if (state === 'open') {
              enter('half_open')
              left = probes
            }
            if (state === 'half_open') until = now + OPEN_FOR
            out.push({ admission, isStale: false })
            admitted.push(admission)
          } else {
            const call = out[which % Math.max(1, out.length)]
            if (call === undefined) continue
            const isLatest = Math.max(...admitted) === call.admission
            out = out.filter(other => other !== call)
            if (then === 'release') breaker.release(call.admission, now)
            else breaker.record(call.admission, then === 'success', now)
            if (call.isStale) {
              // says nothing of now
            } else if (then === 'release') {
              if (state === 'half_open' && isLatest) until = now
            } else if (state === 'half_open' && then === 'success' && --left > 0) {
              if (isLatest) until = now
            } else if (state === 'half_open') {
              enter(then === 'success' ? 'closed' : 'open')
              outcomes = []
              until = now + OPEN_FOR
            } else {
              outcomes.push({ at: now, ok: then === 'success' })
              const recent = outcomes.filter(({ at }) => tenth(at) > tenth(now) - 10)
              const failed = recent.filter(({ ok }) => !ok).length
              if (then === 'failure' && recent.length >= MINIMUM && failed / recent.length >= 0.5) {
                enter('open')
                until = now + OPEN_FOR
              }
            }
          }
          expect(breaker.state).toBe(state)
        }
        expect(changes).toEqual(entered)
      }),
      { numRuns: 1000 },
    )
  })

  it('is not confused by a clock that starts at any time', async () => {
    for (const start of [0, 1, 9999, 123_456_789]) {
      const breaker = new CircuitBreaker('x', { minimumCalls: 2, window: '10s' })
      breaker.record(breaker.admit(start), false, start)
      expect(breaker.state).toBe('closed')
      breaker.record(breaker.admit(start + 1), false, start + 1)
      expect(breaker.state).toBe('open')
    }
  })
})

describe('circuitBreaker(name)', () => {
  it('is shared by all calls that name it', async () => {
    const clock = fakeClock()
    const named = () => circuitBreaker('shared by name', { minimumCalls: 2 })
    for (let i = 0; i < 2; i++) await retry(down, once, { clock, breaker: named() }).catch(() => {})
    await expect(retry(() => 'result', once, { clock, breaker: circuitBreaker('shared by name') })).rejects.toThrow(
      BreakerOpenError,
    )
    await expect(retry(() => 'result', once, { clock, breaker: circuitBreaker('another') })).resolves.toBe('result')
  })

  it('with other options than before is an error that says so', () => {
    circuitBreaker('twice', { minimumCalls: 5 })
    expect(() => circuitBreaker('twice', { minimumCalls: 6 })).toThrow(OptionError)
    expect(() => circuitBreaker('twice', { minimumCalls: 6 })).toThrow(/circuit breaker 'twice'.*"minimumCalls":5/)
  })

  const wrong: [option: string, value: unknown][] = [
    ['failureRate', 0],
    ['failureRate', 1.1],
    ['failureRate', Number.NaN],
    ['minimumCalls', 0],
    ['minimumCalls', 1.5],
    ['window', 0],
    ['window', '-1s'],
    ['openFor', 'soon'],
    ['openFor', 0],
    ['openFor', []],
    ['openFor', ['1s', 'soon']],
    ['openFor', null],
    ['window', { calls: 0 }],
    ['window', null],
    ['consecutiveFailures', 0],
    ['probes', 1.5],
    ['opnFor', '1s'],
  ]
  it.each(wrong)('refuses the option %s of %s, and names it', (option, value) => {
    const make = () => new CircuitBreaker('x', { [option]: value })
    expect(make).toThrow(OptionError)
    expect(make).toThrow(`'${option}'`)
  })
})
