import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PolicyError } from './errors.js'
import { extendPolicy } from './extend-policy.js'
import { policies } from './named-policies.js'
import { policy } from './parse.js'
import type { PolicyInput } from './policy.js'

const BASE: PolicyInput = {
  attempts: 5,
  deferrals: 7,
  backoff: { base: '250ms', factor: 3, max: '10s' },
  jitter: { kind: 'proportional', ratio: 0.25 },
  timeout: '5s',
  ttl: '1m',
  maxRetryAfter: '1h',
  retryOn: [503],
  giveUpOn: [404],
}

describe('a policy laid over another', () => {
  it.each<[PolicyInput]>([
    [{ attempts: 2 }],
    [{ deferrals: 0 }],
    [{ jitter: 'none' }],
    [{ jitter: 'proportional' }],
    [{ timeout: '9s' }],
    [{ ttl: 0 }],
    [{ maxRetryAfter: '2h' }],
    [{ retryOn: 'all' }],
    [{ retryOn: [] }],
    [{ giveUpOn: [] }],
    [{ attempts: 1, giveUpOn: ['EPERM', TypeError], ttl: '9m' }],
  ])('replaces the fields that it has, and no others: %j', over => {
    expect(extendPolicy(BASE, over)).toEqual(policy({ ...BASE, ...over }))
    expect(extendPolicy(policy(BASE), over)).toEqual(policy({ ...BASE, ...over }))
  })

  it('keeps a field that it leaves undefined', () => {
    const over = { attempts: undefined, timeout: undefined, backoff: undefined, jitter: undefined, retryOn: undefined }
    expect(extendPolicy(BASE, over)).toEqual(policy(BASE))
    expect(extendPolicy(BASE, { backoff: { base: undefined, max: undefined } })).toEqual(policy(BASE))
  })

  describe('has a backoff of the same kind taken part by part', () => {
    const exponential = { kind: 'exponential', base: 250, factor: 3, max: 10_000 }

    it.each<[PolicyInput['backoff'], object]>([
      [{ max: '20s' }, { ...exponential, max: 20_000 }],
      [
        { base: '1s', factor: 2 },
        { ...exponential, base: 1000, factor: 2 },
      ],
      [
        { kind: 'exponential', max: '20s' },
        { ...exponential, max: 20_000 },
      ],
      [{ kind: 'exponential' }, exponential],
      ['exponential', exponential],
    ])('%j', (backoff, expected) => {
      expect(extendPolicy(BASE, { backoff }).backoff).toEqual(expected)
      expect(extendPolicy(policy(BASE), { backoff }).backoff).toEqual(expected)
    })

    it('also where the kind was given as a word', () => {
      expect(extendPolicy({ backoff: 'fixed' }, { backoff: { base: '5s' } }).backoff).toEqual({
        kind: 'fixed',
        base: 5000,
      })
    })
  })

  it.each<[PolicyInput['backoff'], object]>([
    ['none', { kind: 'none' }],
    ['fixed', { kind: 'fixed', base: 1000 }],
    [
      { kind: 'fixed', base: '3s' },
      { kind: 'fixed', base: 3000 },
    ],
    [
      { kind: 'linear', base: '3s' },
      { kind: 'linear', base: 3000, max: 30_000 },
    ],
  ])('has a backoff of another kind taken as a whole: %j', (backoff, expected) => {
    const extended = extendPolicy(BASE, { backoff })
    expect(extended.backoff).toEqual(expected)
    expect(extended.jitter).toEqual({ kind: 'proportional', ratio: 0.25 })
  })

  it.each<[PolicyInput['backoff']]>([['decorrelated'], [{ kind: 'decorrelated', base: '1s' }]])(
    'drops the jitter under a backoff that is random by itself: %j',
    backoff => {
      for (const base of [BASE, policy(BASE), policies.call, { jitter: 'equal' as const }]) {
        const extended = extendPolicy(base, { backoff })
        expect(extended.backoff).toEqual({ kind: 'decorrelated', base: 1000, max: 30_000 })
        expect(extended.jitter).toEqual({ kind: 'none' })
      }
      expect(() => extendPolicy(BASE, { backoff, jitter: 'full' })).toThrow(PolicyError)
    },
  )

  it('gets the default jitter in place of a backoff that was random by itself', () => {
    const base = policy({ backoff: 'decorrelated' })
    expect(extendPolicy(base, { backoff: 'exponential' })).toEqual(policy())
    expect(extendPolicy(base, { backoff: { max: '20s' } })).toEqual(
      policy({ backoff: { kind: 'decorrelated', max: '20s' } }),
    )
    expect(extendPolicy(base, { backoff: 'exponential', jitter: 'none' }).jitter).toEqual({ kind: 'none' })
  })

  it('is validated', () => {
    expect(() => extendPolicy(BASE, { attempts: 0 })).toThrow(/'attempts'/)
    expect(() => extendPolicy(BASE, { backoff: { base: '11s' } })).toThrow(/'backoff.max'/)
    expect(() => extendPolicy(BASE, { maxAttempts: 3 } as PolicyInput)).toThrow(/maxAttempts/)
    expect(() => extendPolicy(policies.once, { backoff: { base: '1s' } })).toThrow(/'backoff.base'/)
    expect(() => extendPolicy(BASE, { backoff: null } as unknown as PolicyInput)).toThrow(PolicyError)
    expect(() => extendPolicy(BASE, { backoff: 5 } as unknown as PolicyInput)).toThrow(PolicyError)
  })

  it('leaves both as they were', () => {
    const base = Object.freeze({ ...BASE, backoff: Object.freeze({ base: 5 }) })
    const over = Object.freeze({ attempts: 2, backoff: Object.freeze({ max: '20s' as const }) })
    extendPolicy(base, over)
    expect([base, over]).toEqual([
      { ...BASE, backoff: { base: 5 } },
      { attempts: 2, backoff: { max: '20s' } },
    ])
  })

  it('changes nothing when it is empty, and everything when it is complete', () => {
    const named = fc.constantFrom(...Object.values(policies))
    fc.assert(
      fc.property(named, named, (base, over) => {
        expect(extendPolicy(base, {})).toEqual(base)
        expect(extendPolicy(base, over)).toMatchObject(over)
      }),
    )
  })
})
