import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import {
  advance,
  begin,
  decide,
  FinalError,
  identityRandom,
  OptionError,
  PolicyError,
  type PolicyInput,
  policies,
  policy,
  RateLimitedError,
} from '../policy/index.js'
import type { WorkEvent } from '../telemetry/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { type Attempt, RetryExhaustedError, type RetryOptions, retry, retrying } from './index.js'

/** Runs the clock until the call has settled. */
async function settled<T>(call: Promise<T>, clock: FakeClock): Promise<T> {
  const [result] = await Promise.allSettled([call, clock.runAll()])
  if (result.status === 'rejected') throw result.reason
  return result.value
}

async function failureOf(call: Promise<unknown>, clock: FakeClock): Promise<unknown> {
  return settled(call, clock).then(
    result => expect.fail(`the call succeeded with ${result}`),
    failure => failure,
  )
}

async function exhaustion(call: Promise<unknown>, clock: FakeClock): Promise<RetryExhaustedError> {
  const failure = await failureOf(call, clock)
  if (!(failure instanceof RetryExhaustedError)) throw failure
  return failure
}

/** A function that fails with each of these in turn, then succeeds. */
function failing<T>(failures: readonly unknown[], result: T) {
  let calls = 0
  return vi.fn(async (_: Attempt) => {
    if (calls < failures.length) throw failures[calls++]
    return result
  })
}

const down = () => Promise.reject(new Error('down'))
const never = () => new Promise<never>(() => {})

/** The delays that the sink heard of. */
function delays(events: readonly WorkEvent[]): number[] {
  return events.flatMap(event => ('delayMs' in event ? [event.delayMs] : []))
}

function recorder() {
  const events: WorkEvent[] = []
  return { events, sink: (event: WorkEvent) => void events.push(event) }
}

describe('the error of a call that was given up', () => {
  it('has the frames of whoever awaits the call, however many attempts were made', async () => {
    const clock = fakeClock()
    async function chargeTheCard(attempts: number) {
      return await retry(() => Promise.reject(new Error('down')), { attempts }, { clock })
    }
    for (const attempts of [1, 3]) {
      const [result] = await Promise.allSettled([chargeTheCard(attempts), clock.runAll()])
      if (result.status === 'fulfilled') throw new Error('It must fail.')
      expect(result.reason).toBeInstanceOf(RetryExhaustedError)
      expect(result.reason.stack).toMatch(/at (async )?chargeTheCard/)
    }
  })

  it('has them too if a later attempt failed for good: they are added to its failure', async () => {
    const clock = fakeClock()
    async function chargeTheCard(failure: unknown) {
      return await retry(({ attempt }) => Promise.reject(attempt < 3 ? new Error('down') : failure), {}, { clock })
    }
    const made = new FinalError('no')
    const stack = `${made.stack}`
    const [result] = await Promise.allSettled([chargeTheCard(made), clock.runAll()])
    expect(result).toEqual({ status: 'rejected', reason: made })
    expect(made.stack?.slice(0, stack.length)).toBe(stack)
    expect(made.stack?.slice(stack.length)).toMatch(/^\n +at (async )?chargeTheCard/)

    for (const failure of [Object.freeze(new FinalError('no')), { status: 404 }, 404]) {
      const [result] = await Promise.allSettled([chargeTheCard(failure), clock.runAll()])
      expect(result).toEqual({ status: 'rejected', reason: failure })
    }
  })

  it('leaves the stack of a failure alone if the first attempt failed for good', async () => {
    const failure = new FinalError('no')
    const { stack } = failure
    await expect(retry(() => Promise.reject(failure))).rejects.toBe(failure)
    expect(failure.stack).toBe(stack)
  })

  it('says which call it was', async () => {
    const call = retry(() => Promise.reject(new Error('down')), policies.once, {
      name: 'load prices',
      category: 'PRICES',
    })
    await expect(call).rejects.toMatchObject({
      name: 'RetryExhaustedError',
      operation: 'load prices',
      category: 'PRICES',
    })
    const unnamed = retry(() => Promise.reject(new Error('down')), policies.once)
    await expect(unnamed).rejects.toMatchObject({ operation: 'call', category: undefined })
  })

  it('has the last hundred attempts of a call that made more', async () => {
    let calls = 0
    const fail = () => Promise.reject(new Error(`call ${++calls}`))
    const error: unknown = await retry(fail, { attempts: 250, backoff: 'none' }).catch(error => error)
    if (!(error instanceof RetryExhaustedError)) throw error
    expect(error.attempts.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 100 }, (_, i) => 151 + i))
    expect(error.cause).toMatchObject({ message: 'call 250' })
    for (const record of error.attempts)
      expect(decide(error.policy, record.history, record.verdict, record)).toEqual(record.decision)
  })
})

describe('a call', () => {
  it('that succeeds at once is made once, and gives its result', async () => {
    const fn = vi.fn(async () => 'result')
    await expect(retry(fn)).resolves.toBe('result')
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('is made at once, before retry() returns', () => {
    const fn = vi.fn(() => 'result')
    void retry(fn)
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('that fails is made anew until it succeeds, its attempts numbered from 1', async () => {
    const clock = fakeClock()
    const fn = failing([new Error('a'), new Error('b')], 'result')
    await expect(settled(retry(fn, { attempts: 5 }, { clock }), clock)).resolves.toBe('result')
    expect(fn.mock.calls.map(([{ attempt }]) => attempt)).toEqual([1, 2, 3])
  })

  it('waits as its policy says', async () => {
    const clock = fakeClock()
    const calledAt: number[] = []
    const fn = () => {
      calledAt.push(clock.monotonic())
      return down()
    }
    await failureOf(retry(fn, { attempts: 5, backoff: { base: '1s', max: '5s' }, jitter: 'none' }, { clock }), clock)
    expect(calledAt).toEqual([0, 1000, 3000, 7000, 12_000])
  })

  it('is made as often as the policy says in total, and no delay follows the last one', async () => {
    const clock = fakeClock()
    const fn = vi.fn(down)
    const call = retry(fn, { attempts: 4, backoff: { kind: 'fixed', base: 100 }, jitter: 'none' }, { clock })
    await failureOf(call, clock)
    expect(fn).toHaveBeenCalledTimes(4)
    expect(clock.monotonic()).toBe(300)
  })

  it('has three attempts and no time limit unless its policy says otherwise', async () => {
    const clock = fakeClock()
    const fn = vi.fn(down)
    await failureOf(retry(fn, undefined, { clock }), clock)
    expect(fn).toHaveBeenCalledTimes(3)

    void retry(never, undefined, { clock })
    expect(clock.timers).toBe(0)
  })

  it('takes a policy that was parsed before as well as one that was not', async () => {
    const clock = fakeClock()
    for (const twice of [policy({ attempts: 2 }), { attempts: 2 }, { ...policies.call, attempts: 2 }]) {
      const fn = vi.fn(down)
      await failureOf(retry(fn, twice, { clock }), clock)
      expect(fn).toHaveBeenCalledTimes(2)
    }
  })
})

describe('a call that fails for good', () => {
  it('rejects with an error that has the last failure as its cause and every attempt in order', async () => {
    const clock = fakeClock(1000)
    const failures = [new Error('first'), new Error('second'), new Error('third')]
    const error = await exhaustion(
      retry(failing(failures, 'never'), { backoff: { kind: 'fixed', base: 10 }, jitter: 'none' }, { clock }),
      clock,
    )
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({ name: 'RetryExhaustedError', code: 'retry_exhausted', reason: 'attempts_exhausted' })
    expect(error.cause).toBe(failures[2])
    expect(error.attempts.map(({ failure }) => failure)).toEqual(failures)
    expect(error.attempts.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
    expect(error.attempts.map(({ failedAt }) => failedAt)).toEqual([1000, 1010, 1020])
    expect(error.attempts.map(({ decision }) => decision.action)).toEqual(['retry', 'retry', 'give_up'])
  })

  it('says what was given up, after how many attempts, why, and with what failure', async () => {
    const clock = fakeClock()
    const error = await exhaustion(retry(down, { attempts: 2 }, { clock, name: 'load user' }), clock)
    expect(error.message).toBe(`Gave up on 'load user' (attempts_exhausted) at attempt 2: Error: down`)
  })

  it('says it in the singular for one attempt', async () => {
    const clock = fakeClock()
    expect((await exhaustion(retry(down, policies.once, { clock }), clock)).message).toContain(
      '(attempts_exhausted) at attempt 1: ',
    )
  })

  it('rejects with the original object when the failure is final, and is not made again', async () => {
    const clock = fakeClock()
    for (const failure of [{ status: 404 }, new TypeError('a bug'), new FinalError('no'), 400]) {
      const fn = failing([failure], 'never')
      expect(await failureOf(retry(fn, { attempts: 5 }, { clock }), clock)).toBe(failure)
      expect(fn).toHaveBeenCalledTimes(1)
    }
  })

  it('rejects with the original object when a later attempt fails for good', async () => {
    const clock = fakeClock()
    const gone = { status: 410 }
    expect(await failureOf(retry(failing([new Error('a'), gone], ''), { attempts: 5 }, { clock }), clock)).toBe(gone)
  })

  it('obeys the classifier beside the policy', async () => {
    const clock = fakeClock()
    const empty = { status: 404 }
    const fn = failing([empty, empty], 'found')
    const options: RetryOptions = { clock, classify: failure => (failure === empty ? 'retryable' : undefined) }
    await expect(settled(retry(fn, { attempts: 3 }, options), clock)).resolves.toBe('found')
  })

  it('keeps no timer', async () => {
    const clock = fakeClock()
    await failureOf(retry(down, { timeout: '1h', ttl: '2h' }, { clock, deadline: '3h' }), clock)
    expect(clock.timers).toBe(0)
  })
})

describe('retry() never throws', () => {
  const mistakes: [what: string, policy: unknown, options: unknown, error: unknown][] = [
    ['no attempts', { attempts: 0 }, {}, PolicyError],
    ['half an attempt', { attempts: 1.5 }, {}, PolicyError],
    ['a negative delay', { backoff: { base: -1 } }, {}, PolicyError],
    ['an unknown field', { retries: 3 }, {}, PolicyError],
    ['a policy that is null', null, {}, PolicyError],
    ['a policy that is text', 'often', {}, PolicyError],
    ['a deadline that is not a duration', {}, { deadline: 'soon' }, OptionError],
    ['a deadline that is negative', {}, { deadline: -1 }, OptionError],
    ['a deadline that is not a number', {}, { deadline: Number.NaN }, OptionError],
    ['options that are null', {}, null, TypeError],
    ['a signal that is none', {}, { signal: {} }, TypeError],
    ['a breaker that is none', {}, { breaker: 'payments' }, OptionError],
    ['a budget that is none', {}, { budget: 'payments' }, OptionError],
    ['a sink that is none', {}, { sink: 'stdout' }, OptionError],
  ]
  it.each(mistakes)('but rejects for %s, and does not call', async (_, policy, options, error) => {
    const fn = vi.fn(() => 'result')
    const call = retry(fn, policy as PolicyInput, options as RetryOptions)
    await expect(call).rejects.toThrow(error as typeof TypeError)
    expect(fn).not.toHaveBeenCalled()
  })

  it.each([
    ['a policy', { attempts: -3 }, {}, /'attempts' must be a whole number, 1 or more.* got -3/],
    ['an option', {}, { deadline: 'soon' }, /'deadline' must be a duration such as .* got .*soon/],
    ['a misspelt option', {}, { singal: {} }, /^retry\(\) takes no 'singal'\. Did you mean 'signal'\?/],
    ['an option of the policy', {}, { attempts: 5 }, /^retry\(\) takes no 'attempts', only signal, deadline, within/],
    ['an option that every object has', {}, { toString: 1 }, /^retry\(\) takes no 'toString', only signal/],
    ['a breaker', {}, { breaker: 'payments' }, /'breaker' must be of type object; got 'payments'/],
    ['a budget', {}, { budget: 'payments' }, /'budget' must be of type object; got 'payments'/],
    ['a sink', {}, { sink: {} }, /'sink' must be of type function; got an object/],
  ])('but says what is wrong with %s', async (_, policy, options, message) => {
    await expect(retry(() => 1, policy, options as RetryOptions)).rejects.toThrow(message)
  })

  it('but rejects for options every time that they are wrong, right ones in between or not', async () => {
    const wrong = { singal: {} } as RetryOptions
    const right: RetryOptions = { name: 'charge' }
    for (const options of [wrong, wrong, right, right, wrong, right]) {
      const call = retry(() => 'result', {}, options)
      if (options === right) await expect(call).resolves.toBe('result')
      else await expect(call).rejects.toThrow(OptionError)
    }
  })

  it('rejects for a function that is none, such as the promise that it returns', async () => {
    await expect(retry(undefined as unknown as () => 1)).rejects.toThrow("'fn' must be a function; got undefined.")
    // @ts-expect-error: JavaScript would not notice.
    await expect(retry(Promise.resolve(1))).rejects.toThrow("'fn' must be a function; got an object.")
  })

  it.each([
    ['returns 1', () => 1],
    ['returns a negative number', () => -0.1],
    ['returns no number', () => Number.NaN],
  ])('but rejects when `random` %s', async (_, random) => {
    const clock = fakeClock()
    const failure = await failureOf(retry(down, {}, { random, clock }), clock)
    expect(failure).toBeInstanceOf(OptionError)
    expect(failure).toMatchObject({ option: 'random' })
  })

  it('but rejects with what `random` throws, and leaves no timer and no listener', async () => {
    const clock = fakeClock()
    const { signal } = new AbortController()
    const removed = vi.spyOn(signal, 'removeEventListener')
    const broken = new Error('no entropy')
    const random = () => {
      throw broken
    }
    expect(await failureOf(retry(down, { timeout: '1m' }, { random, clock, signal }), clock)).toBe(broken)
    expect(clock.timers).toBe(0)
    expect(removed).toHaveBeenCalledTimes(1)
  })

  it('and a classifier that throws makes the failure final, so that the call ends', async () => {
    const clock = fakeClock()
    const failure = new Error('down')
    const classify = () => {
      throw new Error('a bug in the classifier')
    }
    expect(await failureOf(retry(failing([failure], ''), {}, { classify, clock }), clock)).toBe(failure)
  })
})

describe('jitter', () => {
  const spread: PolicyInput = { attempts: 6, backoff: { base: 1000, max: '1h' }, jitter: 'full' }

  async function delaysOf(options: RetryOptions) {
    const clock = fakeClock()
    const { events, sink } = recorder()
    await failureOf(retry(down, spread, { ...options, clock, sink }), clock)
    return delays(events)
  }

  it('comes from the identity: the same id gives the same delays', async () => {
    expect(await delaysOf({ id: 'order-42' })).toEqual(await delaysOf({ id: 'order-42', name: 'another name' }))
  })

  it('comes from the identity: other ids give other delays', async () => {
    const all = await Promise.all(Array.from({ length: 50 }, (_, i) => delaysOf({ id: `order-${i}` })))
    expect(new Set(all.map(String)).size).toBe(50)
  })

  it('differs from call to call that has no identity, also under the same name', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => delaysOf({ name: 'load user' })))
    expect(new Set(all.map(String)).size).toBe(20)
  })

  it('is on record: derived from the id that the events name', async () => {
    const clock = fakeClock()
    const { events, sink } = recorder()
    const error = await exhaustion(retry(down, spread, { clock, sink }), clock)
    const id = events[0]?.work.id ?? ''
    expect(id).not.toBe('')
    expect(error.attempts.map(({ random }) => random)).toEqual([1, 2, 3, 4, 5, 6].map(n => identityRandom(id, n)))
  })

  it('is derived from an id that was given, with nobody listening', async () => {
    const clock = fakeClock()
    const error = await exhaustion(retry(down, spread, { clock, id: 'order-42' }), clock)
    expect(error.attempts[0]?.random).toBe(identityRandom('order-42', 1))
  })

  it('comes from `random` where that is given, and stays on record', async () => {
    const clock = fakeClock()
    const draws = [0, 0.25, 0.5, 0.75, 0.999, 0.1]
    const drawn = [...draws]
    const error = await exhaustion(retry(down, spread, { clock, id: 'x', random: () => drawn.shift() ?? 0 }), clock)
    expect(error.attempts.map(({ random }) => random)).toEqual(draws)
    const delayMs = error.attempts.map(({ decision }) => (decision.action === 'retry' ? decision.delayMs : undefined))
    expect(delayMs).toEqual([0, 500, 2000, 6000, 15_984, undefined])
  })
})

describe('a decision on record', () => {
  it('can be recomputed, whatever the policy and the failures', async () => {
    const duration = fc.integer({ min: 1, max: 5000 })
    const input: fc.Arbitrary<PolicyInput> = fc.record(
      {
        attempts: fc.integer({ min: 1, max: 6 }),
        deferrals: fc.nat(3),
        backoff: fc.oneof(
          fc.constantFrom('exponential' as const, 'linear' as const, 'decorrelated' as const, 'none' as const),
          fc.record({ kind: fc.constant('fixed' as const), base: duration }),
        ),
        timeout: duration,
        ttl: duration,
      },
      { requiredKeys: ['attempts', 'deferrals', 'backoff'] },
    )
    const failure = fc.constantFrom(
      { status: 500 },
      { status: 429, retryAfterMs: 700 },
      { status: 429 },
      'hang' as const,
    )

    await fc.assert(
      fc.asyncProperty(
        input,
        fc.array(failure, { minLength: 10, maxLength: 10 }),
        fc.option(duration, { nil: undefined }),
        async (input, failures, deadline) => {
          const clock = fakeClock()
          const parsed = policy({ retryOn: 'all', ...input })
          let calls = 0
          const fn = () => {
            const failure = failures[calls++ % failures.length]
            const hangs = failure === 'hang' && (parsed.timeout ?? deadline) !== undefined
            return hangs ? never() : Promise.reject(failure)
          }
          const error = await exhaustion(retry(fn, parsed, { clock, deadline }), clock)

          expect(error.attempts.length).toBe(calls)
          expect(calls).toBeLessThanOrEqual(parsed.attempts + parsed.deferrals)
          let folded = begin(error.attempts[0]?.history.startedAt ?? 0, error.attempts[0]?.history.deadline)
          for (const record of error.attempts) {
            const { attempt, verdict, history, decision } = record
            expect(attempt).toBe(history.attempts + 1)
            expect(history).toEqual(folded)
            expect(decide(error.policy, history, verdict, record)).toEqual(decision)
            folded = advance(history, verdict, decision)
          }
          expect(error.attempts.at(-1)?.decision).toEqual({ action: 'give_up', reason: error.reason })
        },
      ),
      { numRuns: 150 },
    )
  })
})

describe('a deadline', () => {
  it('cuts a running attempt, and is the reason that the call gives', async () => {
    const clock = fakeClock()
    const signals: AbortSignal[] = []
    const fn = ({ signal }: Attempt) => {
      signals.push(signal)
      return never()
    }
    const error = await exhaustion(retry(fn, { attempts: 3 }, { clock, deadline: '10s' }), clock)
    expect(error.reason).toBe('deadline_passed')
    expect(error.cause).toMatchObject({ name: 'TimeoutError', code: 'timeout', timeoutMs: 10_000 })
    expect(error.message).toContain('The attempt timed out after')
    expect(clock.monotonic()).toBe(10_000)
    expect(signals).toHaveLength(1)
    expect(signals[0]?.reason).toBe(error.cause)
  })

  it('spans attempts and delays together', async () => {
    const clock = fakeClock()
    const fn = vi.fn(async ({ attempt }: Attempt) => (attempt === 1 ? down() : never()))
    const fixed: PolicyInput = { attempts: 5, backoff: { kind: 'fixed', base: '4s' }, jitter: 'none' }
    const error = await exhaustion(retry(fn, fixed, { clock, deadline: '10s' }), clock)
    expect(error.reason).toBe('deadline_passed')
    expect(fn).toHaveBeenCalledTimes(2)
    expect(clock.monotonic()).toBe(10_000)
  })

  it('is not slept towards: a retry that would come too late is not waited for', async () => {
    const clock = fakeClock()
    const fn = vi.fn(down)
    const fixed: PolicyInput = { attempts: 5, backoff: { kind: 'fixed', base: '10s' }, jitter: 'none' }
    expect((await exhaustion(retry(fn, fixed, { clock, deadline: '10s' }), clock)).reason).toBe('deadline_passed')
    expect(fn).toHaveBeenCalledTimes(1)
    expect(clock.monotonic()).toBe(0)
  })

  it('leaves an attempt its own shorter timeout', async () => {
    const clock = fakeClock()
    const fn = vi.fn(async ({ attempt }: Attempt) => (attempt === 1 ? never() : 'result'))
    const call = retry(fn, { timeout: '2s', backoff: 'none', jitter: 'none' }, { clock, deadline: '10s' })
    await expect(settled(call, clock)).resolves.toBe('result')
    expect(clock.monotonic()).toBe(2000)
  })

  it('of nothing is over before the first attempt: it is not made', async () => {
    const clock = fakeClock()
    const fn = vi.fn(() => 'result')
    const error = await exhaustion(retry(fn, policies.once, { clock, deadline: 0 }), clock)
    expect(error).toMatchObject({ reason: 'deadline_passed', attempts: [], cause: undefined })
    expect(error.message).toBe(`Gave up on 'call' (deadline_passed)`)
    expect(fn).not.toHaveBeenCalled()
  })

  it('that has passed when a late timer fires keeps the attempt from being made', async () => {
    const clock = fakeClock()
    const late = { ...clock, setTimer: (sleeper: { wake(): void }, ms: number) => clock.setTimer(sleeper, ms + 5000) }
    const fn = vi.fn(down)
    const fixed: PolicyInput = { backoff: { kind: 'fixed', base: '8s' }, jitter: 'none' }
    const error = await exhaustion(retry(fn, fixed, { clock: late, deadline: '10s' }), clock)
    expect(error.reason).toBe('deadline_passed')
    expect(error.cause).toMatchObject({ message: 'down' })
    expect(error.attempts).toHaveLength(1)
    expect(fn).toHaveBeenCalledTimes(1)
  })

  it('is what each attempt is told', async () => {
    const clock = fakeClock()
    await clock.advance('1m')
    const fn = failing([new Error('a')], 'result')
    await settled(retry(fn, {}, { clock, deadline: '10s' }), clock)
    expect(fn.mock.calls.map(([{ deadline }]) => deadline)).toEqual([70_000, 70_000])
  })
})

describe('a time to live', () => {
  const fixed: PolicyInput = { attempts: 10, backoff: { kind: 'fixed', base: '4s' }, jitter: 'none' }

  it('stops attempts from starting, however long the clock has been running', async () => {
    const clock = fakeClock()
    await clock.advance('1h')
    const fn = vi.fn(down)
    expect((await exhaustion(retry(fn, { ...fixed, ttl: '10s' }, { clock }), clock)).reason).toBe('ttl_expired')
    expect(fn).toHaveBeenCalledTimes(3)
  })

  it('of nothing means one call', async () => {
    const clock = fakeClock()
    const fn = vi.fn(down)
    const none: PolicyInput = { ...fixed, backoff: 'none', ttl: 0 }
    expect((await exhaustion(retry(fn, none, { clock }), clock)).reason).toBe('ttl_expired')
    expect(fn).toHaveBeenCalledTimes(1)
    await expect(retry(() => 'result', none, { clock })).resolves.toBe('result')
  })

  it('does not cut a running attempt', async () => {
    const clock = fakeClock()
    const fn = () => new Promise(resolve => clock.setTimer({ wake: () => resolve('late, but welcome') }, 60_000))
    await expect(settled(retry(fn, { ttl: '10s' }, { clock }), clock)).resolves.toBe('late, but welcome')
  })
})

describe('a rate limit', () => {
  const limited = (seconds: number) => ({ status: 429, headers: { 'Retry-After': String(seconds) } })
  const quick: PolicyInput = { attempts: 2, backoff: { kind: 'fixed', base: 10 }, jitter: 'none' }

  it('sets the delay and costs an attempt, unless the policy has deferrals', async () => {
    const clock = fakeClock()
    const fn = vi.fn(() => Promise.reject(limited(7)))
    expect((await exhaustion(retry(fn, quick, { clock }), clock)).reason).toBe('attempts_exhausted')
    expect(fn).toHaveBeenCalledTimes(2)
    expect(clock.monotonic()).toBe(7000)
  })

  it('costs no attempt while deferrals are left, and the number of the attempt stays', async () => {
    const clock = fakeClock()
    const fn = failing([limited(7), limited(8), new Error('down')], 'result')
    await expect(settled(retry(fn, { ...quick, deferrals: 5 }, { clock }), clock)).resolves.toBe('result')
    expect(fn.mock.calls.map(([{ attempt }]) => attempt)).toEqual([1, 1, 1, 2])
    expect(clock.monotonic()).toBe(7000 + 8000 + 10)
  })

  it('is bounded: a call is made at most attempts + deferrals times', async () => {
    const clock = fakeClock()
    const fn = vi.fn(() => Promise.reject(limited(1)))
    const error = await exhaustion(retry(fn, { ...quick, deferrals: 3 }, { clock }), clock)
    expect(fn).toHaveBeenCalledTimes(5)
    expect(error.reason).toBe('attempts_exhausted')
    expect(error.attempts.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1, 2])
    expect(error.message).toContain('(attempts_exhausted) at attempt 2: ')
  })

  it('without a hint is an ordinary failure', async () => {
    const clock = fakeClock()
    const fn = vi.fn(() => Promise.reject(new RateLimitedError('slow down')))
    await failureOf(retry(fn, { ...quick, deferrals: 100 }, { clock }), clock)
    expect(fn).toHaveBeenCalledTimes(2)
  })
})

describe('a retry within a retry', () => {
  const twice: PolicyInput = { attempts: 3, backoff: { kind: 'fixed', base: 100 }, jitter: 'none' }

  it('that is told so leaves the retrying to the outer one: 3 × 3 are 3 calls', async () => {
    const clock = fakeClock()
    const fn = vi.fn(down)
    const outer = retry(attempt => retry(fn, twice, { clock, within: attempt }), twice, { clock })
    const error = await exhaustion(outer, clock)
    expect(fn).toHaveBeenCalledTimes(3)
    expect(error.attempts).toHaveLength(3)
    expect(error.cause).toMatchObject({ name: 'RetryExhaustedError', cause: { message: 'down' } })
  })

  it('that is told so leaves the deferring to the outer one too', async () => {
    const clock = fakeClock()
    const limited = { status: 429, headers: { 'retry-after': '7' } }
    const fn = vi.fn(() => Promise.reject(limited))
    const patient = { ...twice, deferrals: 5 }
    await failureOf(
      retry(within => retry(fn, patient, { clock, within }), twice, { clock }),
      clock,
    )
    expect(fn).toHaveBeenCalledTimes(3)
  })

  it('that is not told so retries as well: 3 × 3 are 9 calls', async () => {
    const clock = fakeClock()
    const fn = vi.fn(down)
    await failureOf(
      retry(() => retry(fn, twice, { clock }), twice, { clock }),
      clock,
    )
    expect(fn).toHaveBeenCalledTimes(9)
  })

  it('sees the deadline of the outer one, and its own if that is earlier', async () => {
    const clock = fakeClock()
    const seen: (number | undefined)[] = []
    const note = ({ deadline }: Attempt) => void seen.push(deadline)
    const outer = async (within: Attempt) => {
      await retry(note, twice, { clock, within })
      await retry(note, twice, { clock, within, deadline: '5s' })
      await retry(note, twice, { clock, within, deadline: '1h' })
    }
    await settled(retry(outer, twice, { clock, deadline: '10s' }), clock)
    expect(seen).toEqual([10_000, 5000, 10_000])
  })

  it('is cut by the deadline of the outer one', async () => {
    const clock = fakeClock()
    const inner: Promise<unknown>[] = []
    const outer = (within: Attempt) => {
      const call = retry(never, twice, { clock, within })
      inner.push(call.catch(error => error))
      return call
    }
    const error = await exhaustion(retry(outer, twice, { clock, deadline: '10s' }), clock)
    expect(error.reason).toBe('deadline_passed')
    expect(inner).toHaveLength(1)
    expect(await inner[0]).toBe(error.cause)
    expect(clock.timers).toBe(0)
  })

  it('is stopped by the timeout of the outer attempt, and its function sees that', async () => {
    const clock = fakeClock()
    const signals: AbortSignal[] = []
    const fn = ({ signal }: Attempt) => {
      signals.push(signal)
      return never()
    }
    const call = retry(within => retry(fn, twice, { clock, within }), { ...twice, timeout: '1s' }, { clock })
    const error = await exhaustion(call, clock)
    expect(error.attempts).toHaveLength(3)
    expect(signals.map(({ reason }) => reason)).toEqual(error.attempts.map(({ failure }) => failure))
  })

  it('is stopped by its own signal and by that of the outer one', async () => {
    const clock = fakeClock()
    for (const [which, reason] of [
      [0, 'aborted by the inner signal'],
      [1, 'aborted by the outer signal'],
    ] as const) {
      const controllers = [new AbortController(), new AbortController()] as const
      const [{ signal: ofInner }, { signal: ofOuter }] = controllers
      const inner: Promise<unknown>[] = []
      const outer = (within: Attempt) => {
        const call = retry(never, twice, { clock, within, signal: ofInner })
        inner.push(call.catch(error => error))
        return call
      }
      const call = retry(outer, policies.once, { clock, signal: ofOuter })
      controllers[which].abort(reason)
      await failureOf(call, clock)
      expect(await Promise.all(inner)).toEqual([reason])
    }
    expect(clock.timers).toBe(0)
  })

  it('hands what the service asked for on to the outer one', async () => {
    const clock = fakeClock()
    const limited = { status: 429, headers: { 'retry-after': '7' } }
    const fn = failing([limited], 'result')
    await expect(
      settled(
        retry(within => retry(fn, twice, { clock, within }), twice, { clock }),
        clock,
      ),
    ).resolves.toBe('result')
    expect(clock.monotonic()).toBe(7000)
  })

  it('that fails for good ends the outer one too, with the original object', async () => {
    const clock = fakeClock()
    const gone = { status: 410 }
    const fn = failing([gone], '')
    expect(
      await failureOf(
        retry(within => retry(fn, twice, { clock, within }), twice, { clock }),
        clock,
      ),
    ).toBe(gone)
    expect(fn).toHaveBeenCalledTimes(1)
  })
})

describe('what the caller gives', () => {
  function deepFreeze<T extends object>(value: T): T {
    for (const part of Object.values(value)) if (typeof part === 'object' && part !== null) deepFreeze(part)
    return Object.freeze(value)
  }

  it('may be frozen through and through', async () => {
    const clock = fakeClock()
    const given = deepFreeze({
      attempts: 3,
      deferrals: 1,
      backoff: { kind: 'exponential', base: '1s', factor: 3, max: '1m' },
      jitter: { kind: 'proportional', ratio: 0.2 },
      timeout: '5s',
      ttl: '1h',
      retryOn: ['Error'],
      giveUpOn: [404],
    } as const)
    const options = Object.freeze({
      clock,
      id: 'x',
      name: 'y',
      context: deepFreeze({ a: { b: 1 } }),
      deadline: '1h',
    } as const)
    const fn = failing([new Error('a'), new Error('b')], 'result')
    await expect(settled(retry(fn, given, options), clock)).resolves.toBe('result')
  })

  it('is never changed', async () => {
    const clock = fakeClock()
    const given: PolicyInput = { attempts: 3, backoff: { base: '1s' }, retryOn: [Error, '5xx'], giveUpOn: [] }
    const options: RetryOptions = { clock, context: { order: 42 }, deadline: '1h' }
    const before = { given: { ...given }, options: { ...options }, nested: JSON.stringify([given, options.context]) }
    await failureOf(retry(down, given, options), clock)
    expect(given).toEqual(before.given)
    expect(options).toEqual(before.options)
    expect(JSON.stringify([given, options.context])).toBe(before.nested)
  })

  it('may be reused and shared by many calls at once', async () => {
    const clock = fakeClock()
    const given: PolicyInput = { attempts: 2 }
    const options: RetryOptions = { clock }
    const fns = Array.from({ length: 10 }, (_, i) => failing([new Error('a')], i))
    const results = await settled(Promise.all(fns.map(fn => retry(fn, given, options))), clock)
    expect(results).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  })
})

describe('a retrying function', () => {
  it('takes the arguments and the `this` of the function that it wraps', async () => {
    const clock = fakeClock()
    const account = {
      balance: 10,
      calls: 0,
      add(amount: number, times: number) {
        if (++this.calls < 3) throw new Error('down')
        return this.balance + amount * times
      },
    }
    const add = retrying(account.add, { attempts: 3 }, { clock })
    await expect(settled(add.call(account, 4, 2), clock)).resolves.toBe(18)
  })

  it('has its name in what is said of it, unless another is given', async () => {
    const clock = fakeClock()
    const loadUser = () => down()
    const once = policies.once
    expect((await exhaustion(retrying(loadUser, once, { clock })(), clock)).message).toContain(`'loadUser'`)
    expect((await exhaustion(retrying(loadUser, once, { clock, name: 'me' })(), clock)).message).toContain(`'me'`)
    expect((await exhaustion(retrying(() => down(), once, { clock })(), clock)).message).toContain(`'call'`)
  })

  it('finds a mistake in its policy when it is made, not when it is called', () => {
    expect(() => retrying(down, { attempts: 0 })).toThrow(PolicyError)
  })

  it('gives each call attempts of its own', async () => {
    const clock = fakeClock()
    const fn = vi.fn(down)
    const wrapped = retrying(fn, { attempts: 2 }, { clock })
    await failureOf(wrapped(), clock)
    await failureOf(wrapped(), clock)
    expect(fn).toHaveBeenCalledTimes(4)
  })
})
