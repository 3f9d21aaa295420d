import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cpuTime } from '../../test/cpu-time.js'
import { advance, begin, decide } from './decide.js'
import { explain } from './explain.js'
import { policies } from './named-policies.js'
import { policy } from './parse.js'
import type { Policy, PolicyInput, Verdict } from './policy.js'

const RETRYABLE: Verdict = { class: 'retryable', code: 'ECONNRESET' }

describe('the times of the attempts', () => {
  const times = (input: PolicyInput) =>
    explain(input).attempts.map(({ earliestMs, typicalMs, latestMs }) => [earliestMs, typicalMs, latestMs])

  it.each<[string, PolicyInput, number[][]]>([
    ['of one attempt', { attempts: 1 }, [[0, 0, 0]]],
    [
      'without a delay',
      { attempts: 3, backoff: 'none' },
      [
        [0, 0, 0],
        [0, 0, 0],
        [0, 0, 0],
      ],
    ],
    [
      'with full jitter',
      { attempts: 3 },
      [
        [0, 0, 0],
        [0, 500, 1000],
        [0, 1500, 3000],
      ],
    ],
    [
      'with equal jitter',
      { attempts: 2, jitter: 'equal' },
      [
        [0, 0, 0],
        [500, 750, 1000],
      ],
    ],
    [
      'with proportional jitter',
      { attempts: 2, jitter: 'proportional' },
      [
        [0, 0, 0],
        [900, 1000, 1100],
      ],
    ],
    [
      'with a timeout',
      { attempts: 3, jitter: 'none', timeout: '10s' },
      [
        [0, 0, 0],
        [1000, 1000, 11_000],
        [3000, 3000, 23_000],
      ],
    ],
    [
      'with a time to live',
      { attempts: 9, jitter: 'none', ttl: '7s' },
      [
        [0, 0, 0],
        [1000, 1000, 1000],
        [3000, 3000, 3000],
      ],
    ],
    [
      'with a time to live that is reached in its midst',
      { attempts: 3, ttl: '2s' },
      [
        [0, 0, 0],
        [0, 500, 1000],
        [0, 1500, 1999],
      ],
    ],
    ['with a time to live of 0', { attempts: 9, backoff: 'none', ttl: 0 }, [[0, 0, 0]]],
    [
      'decorrelated',
      { attempts: 3, backoff: 'decorrelated' },
      [
        [0, 0, 0],
        [1000, 2000, 3000],
        [2000, 5500, 12_000],
      ],
    ],
  ])('%s', (_, input, expected) => {
    expect(times(input)).toEqual(expected)
  })

  it('are numbered from 1', () => {
    expect(explain({ attempts: 3 }).attempts.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
  })

  it('are those of the first hundred attempts, and soon there, however many more there are', () => {
    for (const attempts of [101, 100_000, Number.MAX_SAFE_INTEGER]) {
      const explained = () => expect(explain({ attempts, timeout: '1s' }).attempts).toHaveLength(100)
      expect(cpuTime(explained)).toBeLessThan(1000)
    }
    expect(explain({ attempts: 100 }).attempts).toHaveLength(100)
  })
})

describe('the worst case', () => {
  it.each<[string, PolicyInput, number | undefined]>([
    ['is unknown where nothing limits an attempt', { attempts: 3 }, undefined],
    ['is one timeout for one attempt', { attempts: 1, timeout: '10s' }, 10_000],
    ['is every timeout and every longest delay', { attempts: 3, timeout: '10s' }, 33_000],
    ['counts what a proportional jitter adds', { attempts: 2, jitter: 'proportional', timeout: '10s' }, 21_100],
    ['has the last attempt start within the time to live', { attempts: 9, timeout: '10s', ttl: '15s' }, 24_999],
    [
      'goes beyond the attempts in the table',
      { attempts: 1000, backoff: { kind: 'fixed', base: '1s' }, jitter: 'none', timeout: '1s' },
      1_999_000,
    ],
    [
      'does so for a decorrelated backoff',
      { attempts: 101, backoff: 'decorrelated', timeout: '1s' },
      101_000 + 3000 + 9000 + 27_000 + 97 * 30_000,
    ],
    ['is one timeout where no time is left for a second start', { attempts: 9, timeout: '10s', ttl: 1 }, 10_000],
    ['is one timeout with a time to live of 0', { attempts: 9, timeout: '10s', ttl: 0 }, 10_000],
    ['ends with the time to live there too', { attempts: 1e9, backoff: 'none', timeout: '1s', ttl: '1h' }, 3_600_999],
  ])('%s', (_, input, expected) => {
    expect(explain(input).worstCaseMs).toBe(expected)
  })
})

describe('the words', () => {
  it.each<[string, PolicyInput, string[]]>([
    ['one attempt', { attempts: 1 }, ['One attempt, no retry.', 'there is no worst case']],
    ['no delay', { backoff: 'none', jitter: 'none' }, ['Up to 3 attempts, without a delay.']],
    ['fixed', { backoff: { kind: 'fixed', base: '90s' }, jitter: 'none' }, ['Up to 3 attempts, 1m 30s apart.']],
    ['linear', { backoff: 'linear', jitter: 'none' }, ['each 1s later than the one before, at most 30s']],
    [
      'exponential',
      { backoff: { factor: 3 } },
      ['the first retry after 1s, then 3 times as long each time, at most 30s'],
    ],
    ['decorrelated', { backoff: 'decorrelated' }, ['a random time between 1s and three times the last, at most 30s']],
    ['full jitter', {}, ['each delay spread evenly from 0']],
    ['equal jitter', { jitter: 'equal' }, ['each delay spread over its upper half']],
    ['proportional jitter', { jitter: { kind: 'proportional', ratio: 0.12344 } }, ['each delay ±12.34 %']],
    ['a timeout', { timeout: '5s' }, ['Each attempt may run for 5s.', 'Worst case: 18s in all']],
    [
      'that a rate limit may take longer',
      { timeout: '5s' },
      ['18s in all, unless a rate limit asks for longer waits.'],
    ],
    ['so of a deferral too', { attempts: 1, deferrals: 1, timeout: '5s' }, ['5s in all, unless a rate limit asks']],
    ['all that there is of one attempt', { attempts: 1, timeout: '5s' }, ['Worst case: 5s in all.']],
    ['a time to live', { ttl: '1h' }, ['No attempt starts 1h or more after the first.']],
    ['a time to live of 0', { ttl: 0 }, ['No retry starts: the time to live is 0.']],
    ['no deferrals', {}, ['is obeyed, up to 1d, and counts as an attempt.']],
    ['deferrals', { deferrals: 5, maxRetryAfter: '1h' }, ['is obeyed, up to 1h, and up to 5 times costs no attempt.']],
    ['what is retried by default', {}, ['Retried: transient and unknown failures.']],
    ['all', { retryOn: 'all' }, ['Retried: every failure.']],
    ['an empty list', { retryOn: [] }, ['Retried: every failure.']],
    ['none', { retryOn: 'none' }, ['Retried: nothing.']],
    ['a list', { retryOn: [503, 'EPIPE'] }, ['Retried: only 503, EPIPE.']],
    ['one that is given up on', { giveUpOn: [404] }, ['Given up on at once: 404.']],
    ['what is given up on', { giveUpOn: [404, TypeError] }, ['Given up on at once: 404, TypeError.']],
  ])('say %s', (_, input, expected) => {
    for (const words of expected) expect(explain(input).words).toContain(words)
  })

  it('say nothing of what there is not', () => {
    const { words } = explain({})
    expect(words).not.toMatch(/may run for|No attempt starts|Given up on|undefined|NaN|false/)
  })

  it('are whole sentences for every named policy', () => {
    for (const named of Object.values(policies))
      expect(explain(named).words).toMatch(/^([A-Z][^.]*(\.\d[^.]*)*\.( |$))+$/)
  })
})

describe('the table', () => {
  it('has a row per attempt, in columns', () => {
    const rows = explain({ attempts: 3, jitter: 'none', timeout: '1m' }).table.split('\n')
    expect(rows).toEqual([
      'attempt  earliest  typical  latest',
      '      1       0ms      0ms     0ms',
      '      2        1s       1s   1m 1s',
      '      3        3s       3s   2m 3s',
    ])
  })

  it('has columns of one width for any policy', () => {
    for (const input of [...Object.values(policies), { attempts: 1_000_000 }]) {
      const widths = explain(input)
        .table.split('\n')
        .map(row => row.length)
      expect(new Set(widths).size).toBe(1)
    }
  })
})

describe('any explanation', () => {
  const ms = fc.integer({ min: 0, max: 3000 })
  const ranges = fc.tuple(ms, ms).map(([a, b]) => ({ base: Math.min(a, b), max: Math.max(a, b) }))
  const factors = fc.double({ min: 1, max: 5, noNaN: true })
  const backoffs = fc.oneof(
    fc.constant({ kind: 'none' as const }),
    ms.map(base => ({ kind: 'fixed' as const, base })),
    ranges.map(range => ({ kind: 'linear' as const, ...range })),
    fc.tuple(ranges, factors).map(([range, factor]) => ({ kind: 'exponential' as const, ...range, factor })),
    ranges.map(range => ({ kind: 'decorrelated' as const, ...range })),
    fc.array(ms, { minLength: 1, maxLength: 5 }).map(delays => ({ kind: 'list' as const, delays })),
  )
  const jitters = fc.oneof(
    fc.constantFrom<PolicyInput['jitter']>('none', 'full', 'equal'),
    fc.double({ min: 0, max: 1, noNaN: true }).map(ratio => ({ kind: 'proportional' as const, ratio })),
  )
  const policies = fc
    .record({
      attempts: fc.integer({ min: 1, max: 12 }),
      backoff: backoffs,
      jitter: jitters,
      timeout: fc.option(fc.integer({ min: 1, max: 3000 }), { nil: undefined }),
      ttl: fc.option(fc.integer({ min: 0, max: 15_000 }), { nil: undefined }),
    })
    .map(input => policy({ ...input, jitter: input.backoff.kind === 'decorrelated' ? undefined : input.jitter }))
  const random = fc.oneof(
    fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
    fc.constantFrom(0, 0.5, 1 - 2 ** -53),
  )
  const randoms = fc.array(random, { minLength: 12, maxLength: 12 })
  /** How much of its timeout each attempt takes before it fails. */
  const shares = fc.oneof(
    fc.constantFrom(Array<number>(12).fill(0), Array<number>(12).fill(1)),
    fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 12, maxLength: 12 }),
  )

  /** When each attempt of work that always fails starts, and when the last one ends. */
  function run(
    policy: Policy,
    randoms: readonly number[],
    shares: readonly number[],
  ): { starts: number[]; end: number } {
    const starts = [0]
    let history = begin(0)
    for (let i = 0; ; i++) {
      const now = (starts[i] ?? 0) + Math.round((policy.timeout ?? 0) * (shares[i] ?? 0))
      const decision = decide(policy, history, RETRYABLE, { now, random: randoms[i] ?? 0 })
      if (decision.action === 'give_up') return { starts, end: now }
      history = advance(history, RETRYABLE, decision)
      starts.push(decision.at)
    }
  }

  it('has every attempt start within its times, whatever the jitter and however long attempts take', () => {
    fc.assert(
      fc.property(policies, randoms, shares, (policy, randoms, shares) => {
        const { attempts, worstCaseMs = Infinity } = explain(policy)
        const { starts, end } = run(policy, randoms, shares)
        for (const [i, start] of starts.entries()) {
          expect(start).toBeGreaterThanOrEqual(attempts[i]?.earliestMs ?? Infinity)
          expect(start).toBeLessThanOrEqual(attempts[i]?.latestMs ?? -Infinity)
        }
        expect(end).toBeLessThanOrEqual(worstCaseMs)
      }),
      { numRuns: 1000 },
    )
  })

  it('has times that are reached: the earliest by the lowest draws and attempts that fail at once', () => {
    fc.assert(
      fc.property(policies, policy => {
        const { starts } = run(policy, Array<number>(12).fill(0), [])
        expect(explain(policy).attempts.map(({ earliestMs }) => earliestMs)).toEqual(starts)
      }),
    )
  })

  it('has times that are reached: the latest, without a time to live, by the highest draws and attempts that time out', () => {
    fc.assert(
      fc.property(policies, some => {
        const patient = policy({ ...some, ttl: undefined })
        const { starts, end } = run(patient, Array<number>(12).fill(1 - 2 ** -53), Array<number>(12).fill(1))
        const { attempts, worstCaseMs } = explain(patient)
        expect(attempts.map(({ latestMs }) => latestMs)).toEqual(starts)
        if (worstCaseMs !== undefined) expect(worstCaseMs).toBe(end)
      }),
    )
  })

  it('has its typical times between the earliest and the latest, and all of them in order', () => {
    fc.assert(
      fc.property(policies, policy => {
        const { attempts } = explain(policy)
        for (const [i, { earliestMs, typicalMs, latestMs }] of attempts.entries()) {
          expect(earliestMs).toBeLessThanOrEqual(typicalMs)
          expect(typicalMs).toBeLessThanOrEqual(latestMs)
          expect([earliestMs, typicalMs, latestMs].every(Number.isSafeInteger)).toBe(true)
          if (i > 0) expect(latestMs).toBeGreaterThanOrEqual(attempts[i - 1]?.latestMs ?? 0)
        }
      }),
    )
  })
})
