import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { OptionError, type PolicyInput } from '../policy/index.js'
import { type FakeClock, fakeClock } from '../testing/index.js'
import { RetryBudget, type RetryBudgetOptions, RetryExhaustedError, retry, retryBudget } from './index.js'

const down = () => Promise.reject(new Error('down'))
const fixed: PolicyInput = { attempts: 100, backoff: { kind: 'fixed', base: '1s' }, jitter: 'none' }

/** How many retries are allowed at this moment, one after the other. */
function retriesAt(budget: RetryBudget, now: number): number {
  for (let retries = 0; retries < 10_000; retries++) {
    if (budget.isEmpty(now)) return retries
    budget.withdraw()
  }
  throw new Error('the budget is never empty')
}

async function exhaustion(call: Promise<unknown>, clock: FakeClock): Promise<RetryExhaustedError> {
  const [result] = await Promise.allSettled([call, clock.runAll()])
  if (result.status === 'rejected' && result.reason instanceof RetryExhaustedError) return result.reason
  throw new Error('the call was not exhausted')
}

describe('a retry budget', () => {
  it('starts full, and holds no more than its maximum', () => {
    const budget = new RetryBudget('x', { max: 7 })
    for (let i = 0; i < 1000; i++) budget.deposit()
    expect(retriesAt(budget, 0)).toBe(7)
    expect(retriesAt(budget, 3_600_000)).toBe(7)
  })

  it('is refilled by time: so many retries per second, whatever the calls', () => {
    const budget = new RetryBudget('x', { max: 100, minPerSecond: 10, ratio: 0 })
    expect(retriesAt(budget, 0)).toBe(100)
    expect(retriesAt(budget, 1000)).toBe(10)
    expect(retriesAt(budget, 1099)).toBe(0)
    expect(retriesAt(budget, 1100)).toBe(1)
    expect(retriesAt(budget, 3100)).toBe(20)
  })

  it.each([
    [0.1, 10],
    [0.2, 5],
    [0.01, 100],
    [0.7, 10],
  ])('with a ratio of %f lets as many retries follow %i calls as that says', (ratio, calls) => {
    const budget = new RetryBudget('x', { ratio, minPerSecond: 0 })
    expect(retriesAt(budget, 0)).toBe(100)
    for (let i = 0; i < calls - 1; i++) budget.deposit()
    const before = retriesAt(budget, 0)
    budget.deposit()
    expect(before + retriesAt(budget, 0)).toBe(Math.round(ratio * calls))
  })

  it('of nothing but what it starts with runs dry', () => {
    const budget = new RetryBudget('x', { ratio: 0, minPerSecond: 0, max: 3 })
    expect(retriesAt(budget, 0)).toBe(3)
    expect(retriesAt(budget, 1e9)).toBe(0)
  })

  it('is not refilled by a clock that goes back', () => {
    const budget = new RetryBudget('x', { ratio: 0, minPerSecond: 1, max: 1 })
    expect(retriesAt(budget, 5000)).toBe(1)
    expect(retriesAt(budget, 1000)).toBe(0)
    expect(retriesAt(budget, 2000)).toBe(1)
  })

  it('never allows more than it starts with, the ratio of the calls and the floor together', () => {
    const options = fc.record({
      ratio: fc.double({ min: 0, max: 1, noNaN: true }),
      minPerSecond: fc.integer({ min: 0, max: 50 }),
      max: fc.integer({ min: 1, max: 50 }),
    })
    const step = fc.oneof(
      fc.record({ calls: fc.nat(20) }),
      fc.record({ ms: fc.nat(2000) }),
      fc.constant('retry' as const),
    )
    fc.assert(
      fc.property(options, fc.array(step, { maxLength: 100 }), (options, steps) => {
        const budget = new RetryBudget('x', options)
        let [now, calls, retries] = [0, 0, 0]
        budget.isEmpty(now)
        for (const step of steps) {
          if (step === 'retry') {
            if (budget.isEmpty(now)) continue
            budget.withdraw()
            retries++
            const allowed = options.max + calls * options.ratio + (now / 1000) * options.minPerSecond
            expect(retries).toBeLessThanOrEqual(allowed + 1e-6)
          } else if ('ms' in step) now += step.ms
          else
            for (let i = 0; i < step.calls; i++) {
              budget.deposit()
              calls++
            }
        }
      }),
    )
  })
})

describe('calls that share a budget', () => {
  it('are given up when it is empty, for that reason', async () => {
    const clock = fakeClock()
    const budget = new RetryBudget('x', { ratio: 0, minPerSecond: 0, max: 2 })
    const fn = vi.fn(down)
    const error = await exhaustion(retry(fn, fixed, { clock, budget }), clock)
    expect(error.reason).toBe('budget_empty')
    expect(fn).toHaveBeenCalledTimes(3)
    expect(error.cause).toMatchObject({ message: 'down' })

    expect((await exhaustion(retry(fn, fixed, { clock, budget }), clock)).reason).toBe('budget_empty')
    expect(fn).toHaveBeenCalledTimes(4)
  })

  it('are still made when it is empty: only retries cost', async () => {
    const clock = fakeClock()
    const budget = new RetryBudget('x', { ratio: 0, minPerSecond: 0, max: 1 })
    await exhaustion(retry(down, fixed, { clock, budget }), clock)
    await expect(retry(() => 'result', fixed, { clock, budget })).resolves.toBe('result')
  })

  it('answer an outage with little more load than there was', async () => {
    const clock = fakeClock()
    const budget = new RetryBudget('x', { ratio: 0.1, minPerSecond: 0, max: 10 })
    const fn = vi.fn(down)
    const calls = Array.from({ length: 1000 }, () => retry(fn, { ...fixed, attempts: 10 }, { clock, budget }))
    await Promise.allSettled([...calls, clock.runAll()])
    // 1000 calls. All were made before the first one failed, so what they put in beyond the maximum was lost.
    expect(fn).toHaveBeenCalledTimes(1010)
  })

  it('take out nothing for a call that succeeds, fails for good or has used up its attempts', async () => {
    const clock = fakeClock()
    const budget = new RetryBudget('x', { ratio: 0, minPerSecond: 0, max: 1 })
    await retry(() => 'result', fixed, { clock, budget })
    await retry(() => Promise.reject({ status: 404 }), fixed, { clock, budget }).catch(() => {})
    const error = await exhaustion(retry(down, { attempts: 1 }, { clock, budget }), clock)
    expect(error.reason).toBe('attempts_exhausted')
    expect(retriesAt(budget, 0)).toBe(1)
  })

  it('find it by its name', async () => {
    const clock = fakeClock()
    retryBudget('shared by name', { ratio: 0, minPerSecond: 0, max: 1 })
    const call = () => exhaustion(retry(down, fixed, { clock, budget: retryBudget('shared by name') }), clock)
    expect((await call()).attempts).toHaveLength(2)
    expect((await call()).attempts).toHaveLength(1)
  })
})

describe('retryBudget(name)', () => {
  it('with other options than before is an error that says so', () => {
    retryBudget('twice', { max: 5 })
    expect(() => retryBudget('twice', { max: 6 })).toThrow(/retry budget 'twice'.*"max":5/)
  })

  const wrong: [option: keyof RetryBudgetOptions, value: unknown][] = [
    ['ratio', -0.1],
    ['ratio', Number.NaN],
    ['minPerSecond', -1],
    ['minPerSecond', Infinity],
    ['max', 0],
    ['max', 'many'],
  ]
  it.each(wrong)('refuses the option %s of %s, and names it', (option, value) => {
    const make = () => new RetryBudget('x', { [option]: value })
    expect(make).toThrow(OptionError)
    expect(make).toThrow(`'${option}'`)
  })
})
