/** Bugs of earlier retry libraries. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { getEventListeners, once } from 'node:events'
import { connect, createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { FinalError, type PolicyInput, policy } from '../policy/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { type Clock, systemClock } from '../time/index.js'
import { type Attempt, CircuitBreaker, RetryExhaustedError, retry, retryFetch } from './index.js'

const down = () => Promise.reject(new Error('down'))
const never = () => new Promise<never>(() => {})
const fixed: PolicyInput = { attempts: 3, backoff: { kind: 'fixed', base: '1s' }, jitter: 'none' }
const noDelay: PolicyInput = { backoff: 'none', jitter: 'none' }
const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length
const turn = () => new Promise(resolve => setImmediate(resolve))

/** The current state of a promise. */
async function stateOf(promise: Promise<unknown>): Promise<{ state: string; value?: unknown }> {
  const settled = promise.then(
    value => ({ state: 'fulfilled', value }),
    value => ({ state: 'rejected', value }),
  )
  // Ten turns of the promise queue, and not one of the event loop: no timer has run.
  let turns = Promise.resolve()
  for (let i = 0; i < 10; i++) turns = turns.then(() => {})
  return Promise.race([settled, turns.then(() => ({ state: 'pending' }))])
}

async function rejectionOf(call: Promise<unknown>, clock: FakeClock): Promise<unknown> {
  const [result] = await Promise.allSettled([call, clock.runAll()])
  return result.status === 'rejected' ? result.reason : expect.fail(`the call succeeded with ${result.value}`)
}

const unhandled: unknown[] = []
const note = (reason: unknown) => void unhandled.push(reason)
beforeEach(() => {
  unhandled.length = 0
  process.on('unhandledRejection', note)
})
afterEach(() => {
  process.off('unhandledRejection', note)
  vi.restoreAllMocks()
})

describe('an abort', () => {
  it('before the start settles with the reason, and the function is never called', async () => {
    const clock = fakeClock()
    const fn = vi.fn(() => 'result')
    const call = retry(fn, { timeout: '1s' }, { clock, signal: AbortSignal.abort('too late') })
    expect(await stateOf(call)).toEqual({ state: 'rejected', value: 'too late' })
    expect(fn).not.toHaveBeenCalled()
    expect(clock.timers).toBe(0)
  })

  it('during a backoff settles at once with the reason, and never calls again', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const fn = vi.fn(down)
    const call = retry(fn, fixed, { clock, signal: controller.signal })
    await clock.advance(500)
    expect(clock.timers).toBe(1)

    controller.abort('enough')
    expect(await stateOf(call)).toEqual({ state: 'rejected', value: 'enough' })
    expect(clock.timers).toBe(0)
    await clock.advance('1h')
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('during a wait of no length never calls again', async () => {
    // 128 in a row, since one in 128 waits without a delay ends in another way.
    for (let i = 0; i < 128; i++) {
      const controller = new AbortController()
      const fn = vi.fn(() => {
        throw new Error('down')
      })
      const heard: string[] = []
      const call = retry(fn, noDelay, { signal: controller.signal, sink: ({ type }) => void heard.push(type) })
      controller.abort(i)
      expect(await stateOf(call)).toEqual({ state: 'rejected', value: i })
      await turn()
      expect(fn).toHaveBeenCalledTimes(1)
      expect(heard).toEqual(['attempt_started', 'retry_scheduled', 'gave_up'])
    }
  })

  it('wins over a retry that is due at the same moment', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const fn = vi.fn(down)
    clock.setTimer({ wake: () => controller.abort('enough') }, 1000)
    expect(await rejectionOf(retry(fn, fixed, { clock, signal: controller.signal }), clock)).toBe('enough')
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('wins over a retry whose timer can no longer be cleared', async () => {
    const fake = fakeClock()
    const clock: Clock = { ...fake, clearTimer() {} }
    const controller = new AbortController()
    const fn = vi.fn(down)
    const call = retry(fn, fixed, { clock, signal: controller.signal })
    await fake.advance(500)
    controller.abort('enough')
    expect(await rejectionOf(call, fake)).toBe('enough')
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('during an attempt settles at once, even if the function ignores its signal', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const call = retry(never, { timeout: '1h' }, { clock, signal: controller.signal })
    expect((await stateOf(call)).state).toBe('pending')

    controller.abort('enough')
    expect(await stateOf(call)).toEqual({ state: 'rejected', value: 'enough' })
    expect(clock.timers).toBe(0)
  })

  it('reaches the function through the signal of its attempt, with the same reason', async () => {
    const controller = new AbortController()
    const reason = new Error('the user went away')
    const seen: unknown[] = []
    const fn = ({ signal }: Attempt) =>
      new Promise((_, reject) =>
        signal.addEventListener('abort', () => {
          seen.push(signal.reason)
          reject(new Error('stopped'))
        }),
      )
    const call = retry(fn, fixed, { signal: controller.signal })
    controller.abort(reason)
    expect(await stateOf(call)).toEqual({ state: 'rejected', value: reason })
    expect(seen).toEqual([reason])
  })

  it('is seen by a function that first looks at its signal afterwards', async () => {
    const controller = new AbortController()
    let attempt: Attempt | undefined
    const call = retry(
      given => {
        attempt = given
        return never()
      },
      fixed,
      { signal: controller.signal },
    )
    controller.abort('enough')
    await stateOf(call)
    expect(attempt?.signal).toMatchObject({ aborted: true, reason: 'enough' })
  })

  it('from within the function itself settles with the reason, whatever the function returns', async () => {
    const controller = new AbortController()
    const fn = vi.fn(() => {
      controller.abort('enough')
      return 'result'
    })
    await expect(retry(fn, fixed, { signal: controller.signal })).rejects.toBe('enough')
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('after the end changes nothing', async () => {
    const controller = new AbortController()
    const call = retry(() => 'result', fixed, { signal: controller.signal })
    await call
    controller.abort()
    await expect(call).resolves.toBe('result')
  })

  it.each([[null], [0], [''], ['text'], [{ code: 'ECONNRESET' }]])('for the reason %j is not retried', async reason => {
    const clock = fakeClock()
    const controller = new AbortController()
    const fn = vi.fn(never)
    const call = retry(fn, { ...fixed, retryOn: 'all' }, { clock, signal: controller.signal })
    controller.abort(reason)
    expect(await rejectionOf(call, clock)).toBe(reason)
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('without a reason rejects with an AbortError', async () => {
    const controller = new AbortController()
    const call = retry(never, fixed, { signal: controller.signal })
    controller.abort()
    await expect(call).rejects.toMatchObject({ name: 'AbortError' })
  })

  it('is neither a failure nor a success that the breaker counts', async () => {
    const breaker = new CircuitBreaker('sensitive', { minimumCalls: 1, failureRate: 1 })
    for (let i = 0; i < 10; i++) {
      const controller = new AbortController()
      const call = retry(never, fixed, { signal: controller.signal, breaker })
      controller.abort('enough')
      await expect(call).rejects.toBe('enough')
    }
    expect(breaker.state).toBe('closed')

    await expect(retry(down, { attempts: 1 }, { breaker })).rejects.toThrow(RetryExhaustedError)
    expect(breaker.state).toBe('open')
  })
})

describe('an abort by whoever listens to the events', () => {
  /** Aborts when it hears of an event of this type, and notes what it hears. */
  function aborting(type: WorkEvent['type']) {
    const controller = new AbortController()
    const heard: string[] = []
    const sink = (event: WorkEvent) => {
      heard.push(event.type === 'gave_up' ? `gave_up: ${event.reason}` : event.type)
      if (event.type === type) controller.abort('enough')
    }
    return { signal: controller.signal, sink, heard }
  }

  it('when an attempt starts keeps the function from being called', async () => {
    const clock = fakeClock()
    const { heard, ...options } = aborting('attempt_started')
    const fn = vi.fn(() => 'result')
    expect(await rejectionOf(retry(fn, { timeout: '1s' }, { clock, ...options }), clock)).toBe('enough')
    expect(fn).not.toHaveBeenCalled()
    expect(heard).toEqual(['attempt_started', 'gave_up: aborted'])
    expect(clock.monotonic()).toBe(0)
  })

  it('when a retry is scheduled keeps it from being made, and leaves no timer', async () => {
    const clock = fakeClock()
    const { heard, ...options } = aborting('retry_scheduled')
    const fn = vi.fn(down)
    const call = retry(fn, fixed, { clock, ...options })
    expect(await stateOf(call)).toEqual({ state: 'rejected', value: 'enough' })
    expect(clock.timers).toBe(0)
    expect(fn).toHaveBeenCalledTimes(1)
    expect(heard).toEqual(['attempt_started', 'retry_scheduled', 'gave_up: aborted'])
  })

  it('when an attempt timed out ends the call', async () => {
    const clock = fakeClock()
    const { heard, ...options } = aborting('timed_out')
    const call = retry(never, { ...fixed, timeout: '1s' }, { clock, ...options })
    expect(await rejectionOf(call, clock)).toBe('enough')
    expect(heard).toEqual(['attempt_started', 'timed_out', 'gave_up: aborted'])
    expect(clock.monotonic()).toBe(1000)
  })

  it('when the call has succeeded is too late', async () => {
    const { heard, ...options } = aborting('attempt_succeeded')
    await expect(retry(() => 'result', fixed, options)).resolves.toBe('result')
    expect(heard).toEqual(['attempt_started', 'attempt_succeeded'])
    expect(listeners(options.signal)).toBe(0)
  })

  it('when the call was given up is too late: it is given up once, for the first reason', async () => {
    const clock = fakeClock()
    const { heard, ...options } = aborting('gave_up')
    const failure = await rejectionOf(retry(down, { ...fixed, attempts: 1 }, { clock, ...options }), clock)
    expect(failure).toMatchObject({ reason: 'attempts_exhausted' })
    expect(heard).toEqual(['attempt_started', 'gave_up: attempts_exhausted'])
  })

  it('when the breaker refused the call is too late', async () => {
    const clock = fakeClock()
    const breaker = new CircuitBreaker('sensitive', { minimumCalls: 1 })
    await rejectionOf(retry(down, { attempts: 1 }, { clock, breaker }), clock)
    const { heard, ...options } = aborting('gave_up')
    const failure = await rejectionOf(
      retry(() => 'result', fixed, { clock, breaker, ...options }),
      clock,
    )
    expect(failure).toMatchObject({ name: 'BreakerOpenError' })
    expect(heard).toEqual(['gave_up: breaker_open'])
  })
})

describe('an abort by code that judges a failure', () => {
  it('ends the call, and leaves no timer', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const { signal } = controller
    const classify = () => {
      controller.abort('enough')
      return undefined
    }
    const fn = vi.fn(down)
    const call = retry(fn, fixed, { clock, signal, classify })
    expect(await stateOf(call)).toEqual({ state: 'rejected', value: 'enough' })
    expect(clock.timers).toBe(0)
    expect(fn).toHaveBeenCalledTimes(1)
  })
})

describe('the signal of the caller', () => {
  const outcomes: [how: string, fn: () => unknown][] = [
    ['succeeds', () => 'result'],
    ['is exhausted', down],
    ['fails for good', () => Promise.reject(new FinalError('no'))],
    ['throws', () => expect.fail('thrown, not rejected')],
  ]
  it.each(outcomes)('has no listener left after a call that %s', async (_, fn) => {
    const clock = fakeClock()
    const { signal } = new AbortController()
    const added = vi.spyOn(signal, 'addEventListener')
    const removed = vi.spyOn(signal, 'removeEventListener')
    await Promise.allSettled([retry(fn, fixed, { clock, signal }), clock.runAll()])
    expect(added).toHaveBeenCalledTimes(1)
    expect(removed).toHaveBeenCalledTimes(1)
    expect(listeners(signal)).toBe(0)
  })

  it('has no listener left after an abort, whatever the calls were doing', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const { signal } = controller
    const calls = [never, down, () => 'result'].map(fn => retry(fn, fixed, { clock, signal }))
    await clock.advance(1)
    expect(listeners(signal)).toBe(1)
    controller.abort('enough')
    await Promise.allSettled(calls)
    expect(listeners(signal)).toBe(0)

    await expect(retry(never, fixed, { clock, signal })).rejects.toBe('enough')
    expect(listeners(signal)).toBe(0)
  })

  it('keeps its listener while another call still waits', async () => {
    const controller = new AbortController()
    const { signal } = controller
    const waiting = retry(never, fixed, { signal })
    await retry(() => 'result', fixed, { signal })
    expect(listeners(signal)).toBe(1)
    controller.abort('enough')
    await expect(waiting).rejects.toBe('enough')
  })

  it('is not listened to by the inner call of a nested one once that has ended', async () => {
    const clock = fakeClock()
    const { signal } = new AbortController()
    const inner = new AbortController().signal
    await retry(within => retry(() => 'result', fixed, { clock, within, signal: inner }), fixed, { clock, signal })
    expect([listeners(signal), listeners(inner)]).toEqual([0, 0])
  })

  it('has one listener for 100 000 calls that wait, and an abort settles all of them', {
    timeout: 60_000,
  }, async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const { signal } = controller
    const added = vi.spyOn(signal, 'addEventListener')
    const parsed = policy(fixed)
    const failure = new Error('down')
    let [calls, settled] = [0, 0]
    const onEnd = () => void settled++
    const fn = () => {
      calls++
      throw failure
    }
    for (let i = 0; i < 100_000; i++) retry(fn, parsed, { clock, signal }).catch(onEnd)
    expect(clock.timers).toBe(100_000)
    expect(added).toHaveBeenCalledTimes(1)
    expect(listeners(signal)).toBe(1)

    controller.abort()
    await turn()
    expect(settled).toBe(100_000)
    expect(clock.timers).toBe(0)
    expect(listeners(signal)).toBe(0)
    expect(calls).toBe(100_000)
  })
})

describe('a delay', () => {
  it('over 2^31 ms does not end at once', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const controller = new AbortController()
    const fn = vi.fn(down)
    const month: PolicyInput = { backoff: { kind: 'fixed', base: '30d' }, jitter: 'none' }
    const call = retry(fn, month, { signal: controller.signal })
    await new Promise(resolve => setTimeout(resolve, 10))
    expect(fn).toHaveBeenCalledTimes(1)
    expect(warned).not.toHaveBeenCalled()
    controller.abort('enough')
    await expect(call).rejects.toBe('enough')
  })

  it('of no length sets no timer at all', async () => {
    const setTimer = vi.fn(systemClock.setTimer)
    const setTimeout = vi.spyOn(globalThis, 'setTimeout')
    const fn = vi.fn(down)
    const call = retry(fn, { ...noDelay, attempts: 200 }, { clock: { ...systemClock, setTimer } })
    await expect(call).rejects.toThrow(RetryExhaustedError)
    expect(fn).toHaveBeenCalledTimes(200)
    expect(setTimer).not.toHaveBeenCalled()
    expect(setTimeout).not.toHaveBeenCalled()
  })

  describe('of no length, again and again,', () => {
    /** Retries without a delay until it is aborted. If nothing else may run meanwhile, it runs out of attempts. */
    function busy() {
      const controller = new AbortController()
      const fail = () => {
        throw new Error('down')
      }
      const calls = Array.from({ length: 3 }, () =>
        retry(fail, { ...noDelay, attempts: 100_000 }, { signal: controller.signal }).catch(reason => reason),
      )
      return { calls: Promise.all(calls), done: () => controller.abort('not starved') }
    }
    const notStarved = ['not starved', 'not starved', 'not starved']

    it('lets timers run', async () => {
      const { calls, done } = busy()
      setTimeout(done, 1)
      expect(await calls).toEqual(notStarved)
    })

    it('lets immediates run', async () => {
      const { calls, done } = busy()
      setImmediate(done)
      expect(await calls).toEqual(notStarved)
    })

    it('lets sockets be read', async () => {
      const server = createServer(socket => socket.end('hello')).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const address = server.address()
      if (address === null || typeof address === 'string') throw new Error('no port')
      const { calls, done } = busy()
      const socket = connect(address.port, '127.0.0.1').on('data', done)
      expect(await calls).toEqual(notStarved)
      socket.destroy()
      server.close()
    })
  })
})

describe('a timeout of an attempt', () => {
  const limited: PolicyInput = { ...fixed, timeout: '5s' }

  /** A function whose attempts the test ends one by one. */
  function controlled() {
    const attempts: { attempt: Attempt; resolve(value: unknown): void; reject(reason: unknown): void }[] = []
    const fn = (attempt: Attempt) => new Promise((resolve, reject) => void attempts.push({ attempt, resolve, reject }))
    const nth = (n: number) => attempts[n - 1] ?? expect.fail(`there was no attempt ${n}`)
    return { fn, nth, attempts }
  }

  it('aborts the signal of that attempt, and of no other', async () => {
    const clock = fakeClock()
    const { fn, nth } = controlled()
    const caller = new AbortController().signal
    const call = retry(fn, limited, { clock, signal: caller })
    const { signal } = nth(1).attempt
    await clock.advance('6s')
    expect(signal.reason).toMatchObject({ name: 'TimeoutError', code: 'timeout', timeoutMs: 5000 })
    expect(nth(2).attempt.signal).not.toBe(signal)
    expect(nth(2).attempt.signal.aborted).toBe(false)
    expect(caller.aborted).toBe(false)
    nth(2).resolve('result')
    await expect(call).resolves.toBe('result')
    expect(nth(2).attempt.signal.aborted).toBe(false)
  })

  it('has aborted a signal that is first looked at afterwards', async () => {
    const clock = fakeClock()
    const { fn, nth } = controlled()
    const call = retry(fn, limited, { clock })
    await clock.advance('6s')
    expect(nth(1).attempt.signal).toMatchObject({ aborted: true, reason: { name: 'TimeoutError' } })
    nth(2).resolve('result')
    await call
  })

  it('is retried, and in the end the cause is a TimeoutError', async () => {
    const clock = fakeClock()
    const failure = await rejectionOf(retry(never, limited, { clock }), clock)
    expect(failure).toMatchObject({ reason: 'attempts_exhausted', cause: { name: 'TimeoutError' } })
    expect(clock.monotonic()).toBe(5000 + 1000 + 5000 + 1000 + 5000)
  })

  it('makes the late result of the attempt be ignored, also when it comes before the next attempt', async () => {
    const clock = fakeClock()
    const { fn, nth, attempts } = controlled()
    const call = retry(fn, limited, { clock })
    await clock.advance('5s')
    nth(1).resolve('late')
    await clock.advance('1s')
    expect(attempts).toHaveLength(2)
    nth(2).resolve('in time')
    await expect(call).resolves.toBe('in time')
  })

  it('makes the late result of the attempt be ignored, also while the next attempt runs', async () => {
    const clock = fakeClock()
    const { fn, nth } = controlled()
    const call = retry(fn, limited, { clock })
    await clock.advance('6s')
    nth(1).resolve('late')
    expect((await stateOf(call)).state).toBe('pending')
    nth(2).resolve('in time')
    await expect(call).resolves.toBe('in time')
  })

  it('makes the late rejection of the attempt be ignored: it costs no attempt, and nobody need handle it', async () => {
    const clock = fakeClock()
    const { fn, nth, attempts } = controlled()
    const call = retry(fn, limited, { clock })
    await clock.advance('6s')
    nth(1).reject(new FinalError('too late to count'))
    await clock.advance('5s')
    nth(2).reject('late as well')
    await clock.advance('1s')
    expect(attempts.map(({ attempt }) => attempt.attempt)).toEqual([1, 2, 3])
    nth(3).resolve('in time')
    await expect(call).resolves.toBe('in time')
    nth(1).resolve('even later')
    await turn()
    expect(unhandled).toEqual([])
  })

  it('makes a late end be ignored by events and breaker too', async () => {
    const clock = fakeClock()
    const breaker = new CircuitBreaker('x', { minimumCalls: 2, failureRate: 1 })
    const heard: string[] = []
    const { fn, nth } = controlled()
    const call = retry(fn, limited, { clock, breaker, sink: ({ type }) => void heard.push(type) })
    await clock.advance('6s')
    nth(1).reject(new Error('late'))
    await turn()
    expect(breaker.state).toBe('closed')
    nth(2).resolve('in time')
    await call
    nth(1).resolve('even later')
    await turn()
    expect(heard).toEqual(['attempt_started', 'timed_out', 'retry_scheduled', 'attempt_started', 'attempt_succeeded'])
  })

  it('is not retried twice when the function rejects because its signal aborted', async () => {
    const clock = fakeClock()
    const fn = vi.fn(
      ({ signal }: Attempt) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
    )
    const failure = await rejectionOf(retry(fn, limited, { clock }), clock)
    expect(fn).toHaveBeenCalledTimes(3)
    expect(failure).toMatchObject({ attempts: { length: 3 } })
    expect(unhandled).toEqual([])
  })

  it('is disarmed once the attempt has ended, however it ended', async () => {
    const clock = fakeClock()
    await retry(() => 'result', limited, { clock })
    expect(clock.timers).toBe(0)

    const { fn, nth } = controlled()
    const call = retry(fn, limited, { clock }).catch(reason => reason)
    nth(1).reject(new Error('down'))
    await clock.advance(0)
    expect(clock.timers).toBe(1)
    await clock.advance('1s')
    nth(2).reject(new FinalError('no'))
    await call
    expect(clock.timers).toBe(0)
  })

  it('does not cut a function that never gives the loop a turn, but its result still counts', async () => {
    const call = retry(
      () => {
        const end = performance.now() + 3
        while (performance.now() < end);
        return 'result'
      },
      { timeout: 1 },
    )
    await expect(call).resolves.toBe('result')
  })
})

describe('whatever a function throws', () => {
  const proxy = new Proxy(
    {},
    {
      get: () => {
        throw new Error('trap')
      },
      getPrototypeOf: () => {
        throw new Error('trap')
      },
      has: () => {
        throw new Error('trap')
      },
    },
  )
  const cyclic: { cause?: unknown } = {}
  cyclic.cause = cyclic
  const odd: [what: string, thrown: unknown][] = [
    ['null', null],
    ['undefined', undefined],
    ['text', 'down'],
    ['empty text', ''],
    ['a number', 7],
    ['false', false],
    ['a symbol', Symbol('down')],
    ['a bigint', 7n],
    ['a plain object', { oh: 'no' }],
    ['an object without a prototype', Object.create(null)],
    ['a function', () => {}],
    ['an object that causes itself', cyclic],
    ['a proxy that throws at every touch', proxy],
    ['a frozen error', Object.freeze(new Error('down'))],
    ['ten megabytes', new Error('x'.repeat(10_000_000))],
  ]

  it.each(odd)('%s: thrown, it is retried, and is the cause in the end', async (_, thrown) => {
    const clock = fakeClock()
    let calls = 0
    const fn = () => {
      calls++
      throw thrown
    }
    const failure = await rejectionOf(retry(fn, fixed, { clock, sink: () => {} }), clock)
    if (!(failure instanceof RetryExhaustedError)) throw failure
    expect(calls).toBe(3)
    expect(Object.is(failure.cause, thrown)).toBe(true)
    expect('cause' in failure).toBe(true)
    expect(failure.attempts.every(({ failure }) => Object.is(failure, thrown))).toBe(true)
    expect(failure.message.length).toBeLessThan(1000)
  })

  it.each(odd)('%s: rejected, it is retried, and is the cause in the end', async (_, thrown) => {
    const clock = fakeClock()
    const fn = vi.fn(() => Promise.reject(thrown))
    const failure = await rejectionOf(retry(fn, fixed, { clock }), clock)
    if (!(failure instanceof RetryExhaustedError)) throw failure
    expect(fn).toHaveBeenCalledTimes(3)
    expect(Object.is(failure.cause, thrown)).toBe(true)
  })

  /** Whether a call rejects with the very value, which may refuse to be returned from an async function. */
  const rejectsWith = async (call: Promise<unknown>, thrown: unknown) => {
    const [result] = await Promise.allSettled([call])
    return result.status === 'rejected' && Object.is(result.reason, thrown)
  }
  const noFetch = (fetch: () => Promise<never>, classify: () => 'final' | 'retryable') =>
    retryFetch('http://localhost/', { policy: { ...noDelay, attempts: 2 }, fetch, retry: { classify } })

  it.each(odd)(
    '%s: thrown for good, it is what the call rejects with, at the first attempt and later',
    async (_, thrown) => {
      for (const attempts of [1, 2]) {
        let calls = 0
        const fn = () => {
          throw ++calls < attempts ? new Error('down') : thrown
        }
        const classify = () => (calls < attempts ? 'retryable' : 'final')
        expect(await rejectsWith(retry(fn, noDelay, { classify, sink: () => {} }), thrown)).toBe(true)
      }
    },
  )

  it.each(odd)(
    '%s: thrown by a fetch, it is what retryFetch rejects with, or names as the cause',
    async (_, thrown) => {
      const fetch = () => Promise.reject(thrown)
      expect(
        await rejectsWith(
          noFetch(fetch, () => 'final'),
          thrown,
        ),
      ).toBe(true)
      const failure: unknown = await noFetch(fetch, () => 'retryable').catch((error: unknown) => error)
      if (!(failure instanceof RetryExhaustedError)) throw failure
      expect(Object.is(failure.cause, thrown)).toBe(true)
    },
  )

  it.each(odd.filter(([, thrown]) => thrown !== undefined))(
    '%s: as the reason of an abort, it is what a call rejects with',
    async (_, reason) => {
      for (const call of [
        (signal: AbortSignal) => retry(never, fixed, { signal }),
        (signal: AbortSignal) => retryFetch('http://localhost/', { signal, fetch: never }),
      ]) {
        const controller = new AbortController()
        const rejects = rejectsWith(call(controller.signal), reason)
        controller.abort(reason)
        expect(await rejects).toBe(true)
      }
    },
  )

  it('a synchronous throw does not reach the caller synchronously', async () => {
    const fn = () => {
      throw new FinalError('no')
    }
    const call = retry(fn)
    await expect(call).rejects.toThrow(FinalError)
  })
})

describe('whatever a function returns', () => {
  it.each([[undefined], [null], [false], [0], [''], ['value'], [{ then: 'not a function' }]])(
    '%j is its result, without a promise around it',
    async value => {
      await expect(retry(() => value)).resolves.toBe(value)
    },
  )

  it('a promise for a promise is looked through', async () => {
    await expect(retry(async () => Promise.resolve('result'))).resolves.toBe('result')
  })

  it('a thenable that is not a promise gives its value', async () => {
    const thenable = { then: (resolve: (value: string) => void) => resolve('result') }
    await expect(retry(() => thenable as unknown as PromiseLike<string>)).resolves.toBe('result')
  })

  it('a thenable that rejects is retried', async () => {
    const clock = fakeClock()
    let calls = 0
    const thenable = {
      then(resolve: (value: string) => void, reject: (reason: unknown) => void) {
        if (++calls < 3) reject('down')
        else resolve('result')
      },
    }
    const call = retry(() => thenable as PromiseLike<string>, fixed, { clock })
    await Promise.all([expect(call).resolves.toBe('result'), clock.runAll()])
    expect(calls).toBe(3)
  })

  it('a thenable whose `then` throws is a failure', async () => {
    const clock = fakeClock()
    const broken = new Error('broken then')
    const thenable = {
      then() {
        throw broken
      },
    }
    const failure = await rejectionOf(
      retry(() => thenable, fixed, { clock }),
      clock,
    )
    expect(failure).toMatchObject({ cause: broken, attempts: { length: 3 } })
  })

  it('an object that throws when asked for its `then` is a failure', async () => {
    const clock = fakeClock()
    const broken = new Error('broken getter')
    const thenable = {
      get then() {
        throw broken
      },
    }
    const failure = await rejectionOf(
      retry(() => thenable, fixed, { clock }),
      clock,
    )
    expect(failure).toMatchObject({ cause: broken, attempts: { length: 3 } })
  })

  it('a thenable that settles twice counts once', async () => {
    const clock = fakeClock()
    const heard: string[] = []
    const thenable = {
      then(resolve: (value: string) => void, reject: (reason: unknown) => void) {
        resolve('first')
        reject(new Error('second'))
        resolve('third')
      },
    }
    const call = retry(() => thenable as PromiseLike<string>, fixed, {
      clock,
      sink: ({ type }) => void heard.push(type),
    })
    await expect(call).resolves.toBe('first')
    await clock.runAll()
    expect(heard).toEqual(['attempt_started', 'attempt_succeeded'])
  })
})

describe('the asynchronous context of the caller', () => {
  const waits: [wait: string, policy: PolicyInput, fn: () => unknown][] = [
    ['a delay', { backoff: { kind: 'fixed', base: 5 }, jitter: 'none' }, down],
    ['a delay of no length', noDelay, down],
    ['a timeout', { ...noDelay, timeout: 5 }, never],
  ]
  it.each(waits)('is that of every attempt, also after %s, however many calls wait', async (_, policy, fn) => {
    const request = new AsyncLocalStorage<number>()
    const seen = Array.from({ length: 200 }, (): unknown[] => [])
    const calls = seen.map((attempts, i) =>
      request.run(i, () =>
        retry(() => {
          attempts.push(request.getStore())
          return fn()
        }, policy),
      ),
    )
    await Promise.allSettled(calls)
    expect(seen).toEqual(seen.map((_, i) => [i, i, i]))
  })
})

describe('the fake timers of a test', () => {
  afterEach(() => {
    vi.useRealTimers()
  })

  it('move a call on, and may be cleared while it waits', async () => {
    vi.useFakeTimers()
    const fn = vi.fn(down)
    retry(fn, fixed).catch(() => {})
    await vi.advanceTimersByTimeAsync(500)
    vi.clearAllTimers()

    const other = retry(vi.fn(down).mockResolvedValueOnce('result' as never), { ...fixed, timeout: '1h' })
    await expect(other).resolves.toBe('result')
    expect(vi.getTimerCount()).toBe(0)
    const last = retry(fn, fixed).catch(({ name }) => name)
    await vi.advanceTimersByTimeAsync(2100)
    expect(await last).toBe('RetryExhaustedError')
    expect(fn).toHaveBeenCalledTimes(4)
  })
})

describe('many calls', () => {
  it('leave nothing in the clock and on the signal once they have ended', { timeout: 60_000 }, async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const { signal } = controller
    const breaker = new CircuitBreaker('shared', { minimumCalls: 1_000_000 })
    const outcomes = [
      () => 'result',
      async () => 'result',
      () => Promise.reject(new FinalError('no')),
      () => {
        throw new FinalError('no')
      },
      ({ attempt }: Attempt) => (attempt === 1 ? Promise.reject(new Error('down')) : 'result'),
      down,
    ]
    const limited: PolicyInput = { ...noDelay, timeout: '1h', ttl: '1d' }
    const calls = Array.from({ length: 10_000 }, (_, i) =>
      retry<unknown>(outcomes[i % outcomes.length] ?? down, limited, { clock, signal, breaker, deadline: '2h' }),
    )
    const results = await Promise.allSettled(calls)
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(5000)
    expect(clock.timers).toBe(0)
    expect(listeners(signal)).toBe(0)
    expect(unhandled).toEqual([])
  })
})
