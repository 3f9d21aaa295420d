import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { delayAfter } from './backoff.js'
import { MAX_DURATION_MS } from './duration.js'
import { explain } from './explain.js'
import { extendPolicy } from './extend-policy.js'
import { policy } from './parse.js'
import type { Backoff, Jitter, Policy, PolicyInput } from './policy.js'

/** The largest number that can be drawn. */
const ALMOST_ONE = 1 - 2 ** -53

/** The delays after the first failed attempts, without jitter. */
function delays(backoff: PolicyInput['backoff'], count: number): number[] {
  const plain = policy({ backoff, jitter: 'none' })
  return Array.from({ length: count }, (_, i) => delayAfter(plain, i + 1, undefined, 0.7))
}

/** The delay of a second, spread by a jitter. */
function spreadSecond(jitter: PolicyInput['jitter'], random: number): number {
  return delayAfter(policy({ backoff: { kind: 'fixed', base: '1s' }, jitter }), 1, undefined, random)
}

describe('the delay after the n-th failed attempt', () => {
  it.each<[PolicyInput['backoff'], number[]]>([
    ['none', [0, 0, 0, 0]],
    [{ kind: 'fixed', base: 250 }, [250, 250, 250, 250]],
    [{ kind: 'linear', base: 100, max: 350 }, [100, 200, 300, 350, 350]],
    [{ kind: 'exponential', base: 100, factor: 2, max: 1000 }, [100, 200, 400, 800, 1000, 1000]],
    [{ kind: 'exponential', base: 100, factor: 3, max: 10_000 }, [100, 300, 900, 2700, 8100, 10_000]],
    [{ kind: 'exponential', base: 100, factor: 1, max: 1000 }, [100, 100, 100]],
  ])('of %j is %j', (backoff, expected) => {
    expect(delays(backoff, expected.length)).toEqual(expected)
  })

  it('is rounded to whole milliseconds', () => {
    expect(delays({ base: 5, factor: 1.5, max: 100 }, 5)).toEqual([5, 8, 11, 17, 25]) // 5, 7.5, 11.25, 16.875, 25.3125
  })

  it('stays at the cap however far the power is beyond all numbers', () => {
    const plain = policy({ backoff: { base: '1s', max: '30s' }, jitter: 'none' })
    expect(delayAfter(plain, 10_000, undefined, 0.5)).toBe(30_000)
    expect(delayAfter(plain, Number.MAX_SAFE_INTEGER, undefined, 0.5)).toBe(30_000)
  })

  it.each(['fixed', 'linear', 'exponential', 'decorrelated'] as const)('of a %s backoff from 0 stays 0', kind => {
    const fromZero = policy({ backoff: { kind, base: 0 } })
    for (const n of [1, 2, 100, 10_000]) expect(delayAfter(fromZero, n, 0, 0.9)).toBe(0)
  })
})

describe('a decorrelated backoff', () => {
  const decorrelated = policy({ backoff: { kind: 'decorrelated', base: 100, max: 1000 } })

  it.each([
    { previous: undefined, random: 0, expected: 100 },
    { previous: undefined, random: 0.5, expected: 200 }, // U(100, 300): at first, the previous delay is the base
    { previous: undefined, random: ALMOST_ONE, expected: 300 },
    { previous: 200, random: 0, expected: 100 },
    { previous: 200, random: 0.5, expected: 350 }, // U(100, 600)
    { previous: 900, random: 0.1, expected: 360 }, // U(100, 2700): the cap comes after the draw
    { previous: 900, random: 0.5, expected: 1000 },
    { previous: 1, random: 0.5, expected: 100 }, // a base that was raised since: never below it
  ])('draws $expected between its base and three times $previous at $random', ({ previous, random, expected }) => {
    expect(delayAfter(decorrelated, 7, previous, random)).toBe(expected)
  })
})

describe('jitter', () => {
  it.each<[PolicyInput['jitter'], [atZero: number, atQuarter: number, atHalf: number, atTheEnd: number]]>([
    ['none', [1000, 1000, 1000, 1000]],
    ['full', [0, 250, 500, 1000]],
    ['equal', [500, 625, 750, 1000]],
    [{ kind: 'proportional', ratio: 0.25 }, [750, 875, 1000, 1250]],
    [{ kind: 'proportional', ratio: 0 }, [1000, 1000, 1000, 1000]],
    [{ kind: 'proportional', ratio: 1 }, [0, 500, 1000, 2000]],
  ])('%j maps [0, 1) linearly onto its range, the low end at 0', (jitter, expected) => {
    expect([0, 0.25, 0.5, ALMOST_ONE].map(random => spreadSecond(jitter, random))).toEqual(expected)
  })

  it('is rounded to whole milliseconds', () => {
    expect(spreadSecond('full', 0.0004)).toBe(0)
    expect(spreadSecond('full', 0.0006)).toBe(1)
  })

  it('is applied after the cap', () => {
    const capped = policy({ backoff: { base: 100, max: 1000 }, jitter: 'full' })
    expect(delayAfter(capped, 20, undefined, 0.5)).toBe(500)
  })

  it('that is proportional may pass the cap by its ratio, and by no more', () => {
    const capped = policy({ backoff: { base: 100, max: 1000 }, jitter: { kind: 'proportional', ratio: 0.1 } })
    expect(delayAfter(capped, 20, undefined, ALMOST_ONE)).toBe(1100)
  })
})

describe('any delay of any valid policy', () => {
  const duration = fc.oneof(fc.integer({ min: 0, max: 5000 }), fc.integer({ min: 0, max: MAX_DURATION_MS }))
  const baseAndMax = fc.tuple(duration, duration).map(([a, b]) => ({ base: Math.min(a, b), max: Math.max(a, b) }))
  const factor = fc.oneof(
    fc.double({ min: 1, max: 10, noNaN: true }),
    fc.double({ min: 1, max: Number.MAX_VALUE, noNaN: true }),
  )
  const backoffs: fc.Arbitrary<Backoff> = fc.oneof(
    fc.constant({ kind: 'none' as const }),
    duration.map(base => ({ kind: 'fixed' as const, base })),
    baseAndMax.map(range => ({ kind: 'linear' as const, ...range })),
    fc.tuple(baseAndMax, factor).map(([range, factor]) => ({ kind: 'exponential' as const, ...range, factor })),
    baseAndMax.map(range => ({ kind: 'decorrelated' as const, ...range })),
    fc.array(duration, { minLength: 1, maxLength: 5 }).map(delays => ({ kind: 'list' as const, delays })),
  )
  const jitters: fc.Arbitrary<Jitter> = fc.oneof(
    fc.constantFrom({ kind: 'none' as const }, { kind: 'full' as const }, { kind: 'equal' as const }),
    fc.double({ min: 0, max: 1, noNaN: true }).map(ratio => ({ kind: 'proportional' as const, ratio })),
  )
  const policies = fc
    .record({ backoff: backoffs, jitter: jitters })
    .map(({ backoff, jitter }) => policy({ backoff, ...(backoff.kind !== 'decorrelated' && { jitter }) }))
  const attempt = fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 10_000 }))
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })

  it('is finite, whole and within its bounds', () => {
    fc.assert(
      fc.property(policies, attempt, fc.option(duration, { nil: undefined }), random, (policy, n, previous, random) => {
        const delayMs = delayAfter(policy, n, previous, random)
        const [low, high] = bounds(policy)
        expect(Number.isSafeInteger(delayMs)).toBe(true)
        expect(delayMs).toBeGreaterThanOrEqual(low)
        expect(delayMs).toBeLessThanOrEqual(high)
      }),
      { numRuns: 3000 },
    )
  })

  it('stays within its bounds when each delay follows from the one before', () => {
    fc.assert(
      fc.property(policies, fc.array(random, { minLength: 1, maxLength: 50 }), (policy, randoms) => {
        const [low, high] = bounds(policy)
        let previous: number | undefined
        for (const [i, random] of randoms.entries()) {
          previous = delayAfter(policy, i + 1, previous, random)
          expect(previous).toBeGreaterThanOrEqual(low)
          expect(previous).toBeLessThanOrEqual(high)
        }
      }),
    )
  })

  it('grows with the random number, and is linear in it', () => {
    fc.assert(
      fc.property(policies, attempt, duration, random, random, (policy, n, previous, a, b) => {
        const at = (random: number) => delayAfter(policy, n, previous, random)
        const [less, more] = [Math.min(a, b), Math.max(a, b)]
        expect(at(less)).toBeLessThanOrEqual(at(more))
        if (policy.backoff.kind === 'decorrelated') return // its cap comes after the draw
        const middle = (at(less) + at(more)) / 2
        // Each of the three is rounded by up to a half, and numbers of this size have gaps of their own.
        expect(Math.abs(at((less + more) / 2) - middle)).toBeLessThanOrEqual(1 + middle * 1e-12)
      }),
    )
  })

  /** No delay is shorter or longer than these, whatever the attempt. */
  function bounds({ backoff, jitter }: Policy): [low: number, high: number] {
    if (backoff.kind === 'none') return [0, 0]
    if (backoff.kind === 'decorrelated') return [backoff.base, backoff.max]
    const ends =
      backoff.kind === 'list' ? backoff.delays : [backoff.base, backoff.kind === 'fixed' ? backoff.base : backoff.max]
    const [shortest, longest] = [Math.min(...ends), Math.max(...ends)]
    switch (jitter.kind) {
      case 'none':
        return [shortest, longest]
      case 'full':
        return [0, longest]
      case 'equal':
        return [shortest / 2, longest]
      case 'proportional':
        return [Math.round(shortest * (1 - jitter.ratio)), Math.round(longest * (1 + jitter.ratio))]
    }
  }
})

describe('a list of delays', () => {
  const delays = (input: PolicyInput, random = 0) =>
    [1, 2, 3, 4, 5].map(n => delayAfter(policy(input), n, undefined, random))

  it('has one after the other, and the last from then on', () => {
    expect(delays({ backoff: ['1s', 5000, '1m'], jitter: 'none' })).toEqual([1000, 5000, 60_000, 60_000, 60_000])
    expect(delays({ backoff: { kind: 'list', delays: [0, 3] }, jitter: 'none' })).toEqual([0, 3, 3, 3, 3])
  })

  it('is spread by the jitter like any other', () => {
    expect(delays({ backoff: [1000, 2000], jitter: 'full' }, 0.5)).toEqual([500, 1000, 1000, 1000, 1000])
  })

  it('goes through JSON, and is explained', () => {
    const list = policy({ attempts: 4, backoff: ['1s', '1m'], jitter: 'none' })
    expect(policy(JSON.parse(JSON.stringify(list)))).toEqual(list)
    expect(explain(list).words).toContain('after 1s, 1m, and the last of these from then on')
    expect(explain(list).attempts.map(({ latestMs }) => latestMs)).toEqual([0, 1000, 61_000, 121_000])
  })

  it('replaces another backoff, and is replaced as a whole', () => {
    const list = extendPolicy({ backoff: { base: '5s' } }, { backoff: ['1s', '2s'] })
    expect(list.backoff).toEqual({ kind: 'list', delays: [1000, 2000] })
    expect(extendPolicy(list, { backoff: ['3s'] }).backoff).toEqual({ kind: 'list', delays: [3000] })
    expect(extendPolicy(list, { backoff: { kind: 'fixed', base: 7 } }).backoff).toEqual({ kind: 'fixed', base: 7 })
  })

  it.each<[unknown, string]>([
    [[], "'backoff.delays' must be a list of durations, 1 or more; got a list"],
    [{ kind: 'list' }, "'backoff.delays' must be a list of durations, 1 or more; got null"],
    ['list', "'backoff.delays' must be a list of durations, 1 or more; got null"],
    [{ kind: 'list', delays: '1s' }, "'backoff.delays' must be a list of durations, 1 or more; got '1s'"],
    [['1s', 'soon'], "'backoff.delays[1]' must be a duration such as 250 or '5m'; got 'soon'"],
    [[-1], "'backoff.delays[0]' must be a duration such as 250 or '5m'; got -1"],
    [[null], "'backoff.delays[0]' must be a duration such as 250 or '5m'; got null"],
    [{ kind: 'list', delay: ['1s'] }, "takes no 'backoff.delay'. Did you mean 'backoff.delays'?"],
  ])('refuses %j', (backoff, message) => {
    expect(() => policy({ backoff: backoff as never })).toThrow(message)
  })
})
