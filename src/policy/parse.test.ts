import { deepStrictEqual } from 'node:assert'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { PolicyError, RedriveError, RetryableError } from './errors.js'
import { policies } from './named-policies.js'
import { policy } from './parse.js'
import type { Backoff, Jitter, Policy, PolicyInput } from './policy.js'

/** The error that a policy is refused with. */
function refusal(input: unknown): PolicyError {
  try {
    policy(input as PolicyInput)
  } catch (error) {
    if (error instanceof PolicyError) return error
    throw error
  }
  throw new Error('The policy was accepted.')
}

describe('a policy', () => {
  it('has sensible defaults', () => {
    expect(policy()).toEqual({
      attempts: 3,
      deferrals: 0,
      losses: 3,
      backoff: { kind: 'exponential', base: 1000, factor: 2, max: 30_000 },
      jitter: { kind: 'full' },
      maxRetryAfter: 86_400_000,
      giveUpOn: [],
    })
    expect(policy({})).toEqual(policy())
  })

  it('leaves out what it does not limit, rather than have it undefined', () => {
    const fields = ['attempts', 'deferrals', 'losses', 'backoff', 'jitter', 'maxRetryAfter', 'giveUpOn']
    expect(Object.keys(policy()).sort()).toEqual(fields.sort())
    expect(Object.keys(policy({ timeout: undefined, ttl: undefined, retryOn: undefined })).sort()).toEqual(fields)
  })

  it('takes a field that is undefined for one that is left out', () => {
    const input = {
      attempts: undefined,
      backoff: { base: undefined, max: undefined },
      jitter: undefined,
      nonsense: undefined,
    }
    expect(policy(input as PolicyInput)).toEqual(policy())
  })

  it.each<[PolicyInput['backoff'], Backoff]>([
    ['none', { kind: 'none' }],
    [{ kind: 'none' }, { kind: 'none' }],
    ['fixed', { kind: 'fixed', base: 1000 }],
    [
      { kind: 'fixed', base: '2m' },
      { kind: 'fixed', base: 120_000 },
    ],
    ['linear', { kind: 'linear', base: 1000, max: 30_000 }],
    ['exponential', { kind: 'exponential', base: 1000, factor: 2, max: 30_000 }],
    [{ base: 5 }, { kind: 'exponential', base: 5, factor: 2, max: 30_000 }],
    [
      { factor: 1.5, max: '1h' },
      { kind: 'exponential', base: 1000, factor: 1.5, max: 3_600_000 },
    ],
    [
      { base: '1s', max: '1s' },
      { kind: 'exponential', base: 1000, factor: 2, max: 1000 },
    ],
    ['decorrelated', { kind: 'decorrelated', base: 1000, max: 30_000 }],
  ])('takes the backoff %j', (backoff, expected) => {
    expect(policy({ backoff }).backoff).toEqual(expected)
  })

  it.each<[PolicyInput['jitter'], Jitter]>([
    ['none', { kind: 'none' }],
    ['full', { kind: 'full' }],
    [{ kind: 'equal' }, { kind: 'equal' }],
    ['proportional', { kind: 'proportional', ratio: 0.1 }],
    [
      { kind: 'proportional', ratio: 0.25 },
      { kind: 'proportional', ratio: 0.25 },
    ],
    [
      { kind: 'proportional', ratio: 0 },
      { kind: 'proportional', ratio: 0 },
    ],
  ])('takes the jitter %j', (jitter, expected) => {
    expect(policy({ jitter }).jitter).toEqual(expected)
  })

  it('has no jitter beside a decorrelated backoff, which may be said', () => {
    expect(policy({ backoff: 'decorrelated' }).jitter).toEqual({ kind: 'none' })
    expect(policy({ backoff: 'decorrelated', jitter: 'none' }).jitter).toEqual({ kind: 'none' })
  })

  it('turns durations into whole milliseconds', () => {
    const { timeout, ttl, maxRetryAfter } = policy({ timeout: '1.5s', ttl: 0, maxRetryAfter: '1h' })
    expect({ timeout, ttl, maxRetryAfter }).toEqual({ timeout: 1500, ttl: 0, maxRetryAfter: 3_600_000 })
  })

  it('keeps statuses, ranges, codes and names as they are, and classes by their names', () => {
    class ValidationError extends Error {}
    const entries = [
      404,
      '5xx',
      'ECONNRESET',
      'QueryError',
      ValidationError,
      Error,
      TypeError,
      RetryableError,
      DOMException,
    ]
    const kept = [
      404,
      '5xx',
      'ECONNRESET',
      'QueryError',
      'ValidationError',
      'Error',
      'TypeError',
      'RetryableError',
      'DOMException',
    ]
    expect(policy({ retryOn: entries }).retryOn).toEqual(kept)
    expect(policy({ giveUpOn: entries }).giveUpOn).toEqual(kept)
  })

  it('keeps a class by the name on its prototype, which a minifier leaves alone', () => {
    class t extends Error {}
    Object.defineProperty(t.prototype, 'name', { value: 'ValidationError' })
    class e extends Error {
      override get name() {
        return 'QueryError'
      }
    }
    expect(policy({ giveUpOn: [t, e] }).giveUpOn).toEqual(['ValidationError', 'QueryError'])
  })

  it.each(['all', 'none', []] as const)('keeps retryOn %j', retryOn => {
    expect(policy({ retryOn }).retryOn).toEqual(retryOn)
  })

  it('is validated once: what policy() made goes through as it is', () => {
    expect(policy(policies.task)).toBe(policies.task)
  })

  it('is a plain object, equal to any other with the same fields', () => {
    deepStrictEqual(policy({ attempts: 5 }), { ...policy(), attempts: 5 })
  })

  it('cannot be changed, in any part', () => {
    const made = policy({ retryOn: [503], giveUpOn: [404] })
    for (const part of [made, made.backoff, made.jitter, made.retryOn, made.giveUpOn])
      expect(Object.isFrozen(part)).toBe(true)
  })

  it('is validated again once it was copied, spread or inherited from', () => {
    expect(refusal({ ...policies.task, attempts: 0 }).field).toBe('attempts')
    expect(refusal(Object.create(policies.task, { attempts: { value: 0, enumerable: true } })).field).toBe('attempts')
    expect(refusal({ ...structuredClone(policies.task), ttl: -1 }).field).toBe('ttl')
  })
})

describe('a policy that cannot be', () => {
  const predicate = () => true
  const nameless = (() => class extends Error {})()
  class NoError {}

  it.each<[field: string, input: unknown, expected: RegExp, got: RegExp]>([
    ['attempts', { attempts: 0 }, /whole number, 1 or more/, /got 0/],
    ['attempts', { attempts: -1 }, /whole number, 1 or more/, /got -1/],
    ['attempts', { attempts: 1.5 }, /whole number, 1 or more/, /got 1\.5/],
    ['attempts', { attempts: NaN }, /whole number, 1 or more/, /got NaN/],
    ['attempts', { attempts: Infinity }, /whole number, 1 or more/, /got Infinity/],
    ['attempts', { attempts: 2 ** 53 }, /whole number, 1 or more/, /got 9007199254740992/],
    ['attempts', { attempts: '3' }, /whole number, 1 or more/, /got '3'/],
    ['attempts', { attempts: null }, /whole number, 1 or more/, /got null/],
    ['attempts', { attempts: true }, /whole number, 1 or more/, /got true/],
    ['attempts', { attempts: [3] }, /whole number, 1 or more/, /got a list/],
    ['attempts', { attempts: { max: 3 } }, /whole number, 1 or more/, /got an object/],
    ['attempts', { attempts: () => 3 }, /whole number, 1 or more/, /got a function/],
    ['attempts', { attempts: 3n }, /whole number, 1 or more/, /got 3/],
    ['attempts', { attempts: Symbol('3') }, /whole number, 1 or more/, /got Symbol\(3\)/],
    ['deferrals', { deferrals: -1 }, /whole number, 0 or more/, /got -1/],
    ['deferrals', { deferrals: 0.5 }, /whole number, 0 or more/, /got 0\.5/],
    ['deferrals', { deferrals: null }, /whole number, 0 or more/, /got null/],
    ['losses', { losses: 0 }, /whole number, 1 or more/, /got 0/],
    ['losses', { losses: 1.5 }, /whole number, 1 or more/, /got 1\.5/],

    ['backoff.kind', { backoff: null }, /one of .*none/, /got null/],
    ['backoff.kind', { backoff: 5 }, /one of .*none/, /got 5/],
    ['backoff.delays', { backoff: [] }, /a list of durations, 1 or more/, /got a list/],
    ['backoff.kind', { backoff: 'quadratic' }, /none.*fixed|fixed.*none/, /got 'quadratic'/],
    ['backoff.kind', { backoff: '' }, /none.*fixed|fixed.*none/, /got ''/],
    ['backoff.kind', { backoff: 'toString' }, /exponential/, /got 'toString'/],
    ['backoff.kind', { backoff: { kind: null } }, /exponential/, /got null/],
    ['backoff.kind', { backoff: { kind: 'Fixed' } }, /exponential/, /got 'Fixed'/],
    ['backoff.base', { backoff: { base: -1 } }, /duration/, /got -1/],
    ['backoff.base', { backoff: { base: '-1s' } }, /duration/, /got '-1s'/],
    ['backoff.base', { backoff: { base: 'soon' } }, /duration/, /got 'soon'/],
    ['backoff.base', { backoff: { base: NaN } }, /duration/, /got NaN/],
    ['backoff.base', { backoff: { base: null } }, /duration/, /got null/],
    ['backoff.base', { backoff: { base: '1000000d' } }, /duration/, /got '1000000d'/],
    ['backoff.base', { backoff: { kind: 'fixed', base: -5 } }, /duration/, /got -5/],
    ['backoff.max', { backoff: { max: -1 } }, /duration/, /got -1/],
    ['backoff.max', { backoff: { max: Infinity } }, /duration/, /got Infinity/],
    ['backoff.max', { backoff: { base: '10s', max: '5s' } }, /backoff\.base/, /5s|5000/],
    ['backoff.max', { backoff: { kind: 'linear', base: '10s', max: '5s' } }, /backoff\.base/, /5s|5000/],
    ['backoff.max', { backoff: { kind: 'decorrelated', base: '10s', max: '5s' } }, /backoff\.base/, /5s|5000/],
    ['backoff.max', { backoff: { base: '1m' } }, /backoff\.base/, /30s|30000/],
    ['backoff.factor', { backoff: { factor: 0.5 } }, /number, 1 or more/, /got 0\.5/],
    ['backoff.factor', { backoff: { factor: NaN } }, /number, 1 or more/, /got NaN/],
    ['backoff.factor', { backoff: { factor: Infinity } }, /a number, 1 or more/, /got Infinity/],
    ['backoff.factor', { backoff: { factor: '2' } }, /number, 1 or more/, /got '2'/],
    ['backoff.maxDelay', { backoff: { maxDelay: 5 } }, /kind, base, factor, max/, /maxDelay/],
    ['backoff.base', { backoff: { kind: 'none', base: 5 } }, /none|kind/, /backoff\.base/],
    ['backoff.max', { backoff: { kind: 'fixed', max: 5 } }, /fixed|kind, base/, /backoff\.max/],
    ['backoff.factor', { backoff: { kind: 'linear', factor: 2 } }, /linear|kind, base, max/, /backoff\.factor/],

    ['jitter.kind', { jitter: null }, /one of .*none/, /got null/],
    ['jitter.kind', { jitter: 0.5 }, /one of .*none/, /got 0\.5/],
    ['jitter.kind', { jitter: true }, /one of .*none/, /got true/],
    ['jitter.kind', { jitter: 'some' }, /none.*full|full.*none/, /got 'some'/],
    ['jitter.ratio', { jitter: { kind: 'proportional', ratio: 1.1 } }, /number from 0 to 1/, /got 1\.1/],
    ['jitter.ratio', { jitter: { kind: 'proportional', ratio: -0.1 } }, /number from 0 to 1/, /got -0\.1/],
    ['jitter.ratio', { jitter: { kind: 'proportional', ratio: NaN } }, /number from 0 to 1/, /got NaN/],
    ['jitter.ratio', { jitter: { kind: 'full', ratio: 0.1 } }, /full|kind/, /jitter\.ratio/],
    ['jitter.percent', { jitter: { kind: 'proportional', percent: 5 } }, /ratio/, /percent/],
    ['jitter', { backoff: 'decorrelated', jitter: 'full' }, /left out/, /decorrelated/],
    [
      'jitter',
      { backoff: { kind: 'decorrelated' }, jitter: { kind: 'proportional', ratio: 0.1 } },
      /left out/,
      /decorrelated/,
    ],

    ['timeout', { timeout: 0 }, /above 0/, /got 0/],
    ['timeout', { timeout: '0s' }, /above 0/, /got ('0s'|0)/],
    ['timeout', { timeout: -1 }, /duration/, /got -1/],
    ['timeout', { timeout: null }, /duration/, /got null/],
    ['timeout', { timeout: '5 s' }, /duration/, /got '5 s'/],
    ['ttl', { ttl: -1 }, /duration/, /got -1/],
    ['ttl', { ttl: null }, /duration/, /got null/],
    ['ttl', { ttl: new Date(0) }, /duration/, /got an object/],
    ['maxRetryAfter', { maxRetryAfter: -1 }, /duration/, /got -1/],
    ['maxRetryAfter', { maxRetryAfter: null }, /duration/, /got null/],

    ['retryOn', { retryOn: 'some' }, /'all', 'none' or a list/, /got 'some'/],
    ['retryOn', { retryOn: null }, /'all', 'none' or a list/, /got null/],
    ['retryOn', { retryOn: 503 }, /'all', 'none' or a list/, /got 503/],
    ['retryOn', { retryOn: predicate }, /'all', 'none' or a list/, /got a function/],
    ['retryOn', { retryOn: TypeError }, /'all', 'none' or a list/, /got a function/],
    ['retryOn[0]', { retryOn: [predicate] }, /a code or an error class/, /got a function/],
    ['retryOn[1]', { retryOn: [503, NoError] }, /error class/, /got a function/],
    ['retryOn[0]', { retryOn: [nameless] }, /error class/, /got a function/],
    ['retryOn[0]', { retryOn: ['all'] }, /an HTTP status, '5xx', a code or an error class/, /got 'all'/],
    ['retryOn[1]', { retryOn: [503, 'none'] }, /an HTTP status, '5xx', a code or an error class/, /got 'none'/],
    ['retryOn[1]', { retryOn: [503, 42] }, /HTTP status/, /got 42/],
    ['retryOn[0]', { retryOn: [600] }, /HTTP status/, /got 600/],
    ['retryOn[0]', { retryOn: [404.5] }, /HTTP status/, /got 404\.5/],
    ['retryOn[0]', { retryOn: [''] }, /code/, /got ''/],
    ['retryOn[0]', { retryOn: [null] }, /code/, /got null/],
    ['retryOn[1]', { retryOn: [503, undefined] }, /code/, /got null/],
    ['retryOn[0]', { retryOn: [[503]] }, /code/, /got a list/],
    ['retryOn[0]', { retryOn: new Array(1) }, /code/, /got null/],
    ['retryOn[0]', { retryOn: [/5../] }, /code/, /got an object/],
    ['giveUpOn', { giveUpOn: 'all' }, /list/, /got 'all'/],
    ['giveUpOn', { giveUpOn: null }, /list/, /got null/],
    ['giveUpOn[2]', { giveUpOn: [404, 'E1', 42] }, /HTTP status/, /got 42/],

    ['maxAttempts', { maxAttempts: 5 }, /Did you mean 'attempts'\?/, /maxAttempts/],
    ['timout', { timout: '2s' }, /takes no 'timout'\. Did you mean 'timeout'\?/, /timout/],
    ['backoff.bsae', { backoff: { bsae: '2s' } }, /takes no 'backoff\.bsae'\. Did you mean 'backoff\.base'\?/, /bsae/],
    ['retries', { attempts: 3, retries: 2 }, /attempts, deferrals, losses, backoff/, /retries/],
    ['classify', { classify: predicate }, /attempts, deferrals, losses, backoff/, /classify/],
    ['__proto__', JSON.parse('{"__proto__":{"attempts":0}}'), /attempts, deferrals, losses, backoff/, /__proto__/],
    ['policy', null, /object/, /got null/],
    ['policy', [], /object/, /got a list/],
    ['policy', 'exponential', /object/, /got 'exponential'/],
    ['policy', 3, /object/, /got 3/],
    ['policy', predicate, /object/, /got a function/],
  ])('names the field %s (case %#)', (field, input, expected, got) => {
    const error = refusal(input)
    expect(error.field).toBe(field)
    expect(error.message).toContain(field)
    expect(error.message).toMatch(expected)
    expect(error.message).toMatch(got)
  })

  it('is refused with an error that can be acted on', () => {
    const error = refusal({ attempts: 0 })
    expect(error).toBeInstanceOf(RedriveError)
    expect(error).toMatchObject({ name: 'PolicyError', code: 'invalid_policy' })
    expect(error.message).toMatch(/^Invalid policy: /)
  })

  it('is refused in few words, however long the mistake is', () => {
    const long = 'x'.repeat(1e6)
    for (const input of [{ ttl: long }, { backoff: long }, { retryOn: long }]) {
      expect(refusal(input).message.length).toBeLessThan(400)
    }
  })

  it('is refused, and with nothing but a PolicyError, for any field of any wrong value', () => {
    const fields = fc.constantFrom(...Object.keys(policy()), 'timeout', 'ttl', 'retryOn')
    fc.assert(
      fc.property(fields, fc.anything({ withNullPrototype: true, withBigInt: true }), (field, value) => {
        fc.pre(!Object.is(value, -0)) // JSON has but one zero
        let made: Policy
        try {
          made = policy({ [field]: value })
        } catch (error) {
          expect(error).toBeInstanceOf(PolicyError)
          expect((error as PolicyError).field.startsWith(field)).toBe(true)
          return
        }
        // It was accepted, so it must be a policy: whole, and none the worse for a trip through JSON.
        expect(Number.isSafeInteger(made.attempts) && made.attempts >= 1).toBe(true)
        expect(policy(JSON.parse(JSON.stringify(made)))).toEqual(made)
      }),
      { numRuns: 1000 },
    )
  })
})

describe('any policy', () => {
  const wholeMs = fc.oneof(fc.nat(10_000), fc.nat(1e12))
  const durations = fc.oneof(
    wholeMs,
    fc.double({ min: 0, max: 1e9, noNaN: true }).map(ms => ms + 0),
    fc.tuple(fc.nat(1000), fc.constantFrom('ms', 's', 'm', 'h', 'd')).map(([n, unit]) => `${n}${unit}` as const),
    fc.tuple(fc.nat(999), fc.nat(999)).map(([n, part]) => `${n}.${part}s` as const),
  ) as fc.Arbitrary<NonNullable<PolicyInput['ttl']>>
  const factors = fc.oneof(
    fc.double({ min: 1, max: 10, noNaN: true }),
    fc.double({ min: 1, max: Number.MAX_VALUE, noNaN: true }),
  )
  const ratios = fc.double({ min: 0, max: 1, noNaN: true }).map(Math.abs)
  const partly = { requiredKeys: [] as [] }

  const ranges = fc.tuple(wholeMs, wholeMs).map(([a, b]) => ({ base: Math.min(a, b), max: Math.max(a, b) }))
  const backoffs = fc.oneof(
    fc.constantFrom<PolicyInput['backoff']>('none', 'fixed', 'linear', 'exponential', { kind: 'none' }, {}),
    fc.record({ kind: fc.constant('fixed' as const), base: durations }, { requiredKeys: ['kind'] }),
    ranges.map(range => ({ kind: 'linear' as const, ...range })),
    fc.tuple(ranges, factors).map(([range, factor]) => ({ ...range, factor })),
  )
  const jitters = fc.oneof(
    fc.constantFrom<PolicyInput['jitter']>('none', 'full', 'equal', 'proportional', { kind: 'full' }),
    ratios.map(ratio => ({ kind: 'proportional' as const, ratio })),
  )
  const matches = fc.array(
    fc.oneof(
      fc.integer({ min: 100, max: 599 }),
      fc.constantFrom('5xx', '4XX', 'ECONNRESET', 'timeout', TypeError, RetryableError),
      // The two words that stand for a whole list are refused as a code.
      fc.string({ minLength: 1 }).filter(code => code !== 'all' && code !== 'none'),
    ),
    { maxLength: 5 },
  )
  const common = {
    attempts: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
    deferrals: fc.nat(),
    losses: fc.integer({ min: 1 }),
    timeout: durations.filter(value => policy({ ttl: value }).ttl !== 0),
    ttl: durations,
    maxRetryAfter: durations,
    retryOn: fc.oneof(fc.constantFrom('all' as const, 'none' as const), matches),
    giveUpOn: matches,
  }
  const inputs: fc.Arbitrary<PolicyInput> = fc.oneof(
    fc.record({ ...common, backoff: backoffs, jitter: jitters }, partly),
    fc.record({ ...common, backoff: ranges.map(range => ({ kind: 'decorrelated' as const, ...range })) }, partly),
  )

  it('goes through JSON without loss', () => {
    fc.assert(
      fc.property(inputs, input => {
        const made = policy(input)
        const reread = policy(JSON.parse(JSON.stringify(made)))
        expect(reread).toStrictEqual(made)
        expect(JSON.stringify(reread)).toBe(JSON.stringify(made))
      }),
      { numRuns: 500 },
    )
  })

  it('is made anew from its own data, field by field', () => {
    fc.assert(
      fc.property(inputs, input => {
        expect(policy({ ...policy(input) })).toStrictEqual(policy(input))
      }),
    )
  })

  it('leaves what it was made from as it was, and free to change', () => {
    fc.assert(
      fc.property(inputs, input => {
        const before = structuredClone(withClassNames(input))
        const made = policy(input)
        expect(withClassNames(input)).toEqual(before)
        for (const part of [input, input.backoff, input.jitter, input.retryOn, input.giveUpOn]) {
          if (typeof part === 'object') expect(Object.isFrozen(part)).toBe(false)
        }
        expect(made.giveUpOn).not.toBe(input.giveUpOn)
      }),
    )
  })

  it('has whole milliseconds for every duration', () => {
    fc.assert(
      fc.property(inputs, input => {
        const { timeout = 1, ttl = 1, maxRetryAfter, backoff } = policy(input)
        const parts = 'max' in backoff ? [backoff.base, backoff.max] : 'base' in backoff ? [backoff.base] : []
        for (const ms of [timeout, ttl, maxRetryAfter, ...parts]) expect(Number.isSafeInteger(ms)).toBe(true)
      }),
    )
  })

  /** A class cannot be cloned, its name can. */
  function withClassNames(input: PolicyInput): PolicyInput {
    const named = (entries: PolicyInput['giveUpOn']) =>
      entries?.map(entry => (typeof entry === 'function' ? entry.name : entry))
    const { retryOn, giveUpOn } = input
    return { ...input, retryOn: typeof retryOn === 'object' ? named(retryOn) : retryOn, giveUpOn: named(giveUpOn) }
  }
})

describe('a policy that is written the same again', () => {
  it('is the one that was made before, whatever it has', () => {
    const write = (): PolicyInput => ({ attempts: 4, backoff: ['1s', '5s'], giveUpOn: [404, RetryableError] })
    expect(policy(write())).toBe(policy(write()))
    expect(policy({ ...write(), ttl: undefined })).toBe(policy(write()))
  })

  it.each<[string, PolicyInput, PolicyInput]>([
    ['a value', { attempts: 6 }, { attempts: 7 }],
    ['a field more', { attempts: 6 }, { attempts: 6, ttl: 5 }],
    ['a field fewer', { attempts: 6, ttl: 5 }, { attempts: 6 }],
    ['another field', { attempts: 6, ttl: 5 }, { attempts: 6, timeout: 5 }],
    ['a field, the other left undefined', { attempts: 9 }, { ttl: undefined }],
    ['a part of the backoff', { backoff: { base: 7 } }, { backoff: { base: 7, factor: 3 } }],
    ['an entry of a list', { giveUpOn: [404] }, { giveUpOn: [404, 405] }],
    ['the class in a list', { giveUpOn: [TypeError] }, { giveUpOn: [RangeError] }],
    ['the last delay', { backoff: [1, 2] }, { backoff: [1] }],
  ])('is another when it differs in %s', (_, one, other) => {
    for (const [first, second] of [
      [one, other],
      [other, one],
    ] as const) {
      const made = policy(first)
      expect(policy(second)).not.toEqual(made)
      expect(policy(second)).toEqual(policy(JSON.parse(JSON.stringify(policy(second)))))
    }
  })

  it('is read again once its input has changed', () => {
    const giveUpOn = [404]
    const backoff = { base: 5 }
    const input = { backoff, giveUpOn }
    policy(input)
    giveUpOn.push(410)
    backoff.base = 6
    expect(policy(input)).toMatchObject({ backoff: { base: 6 }, giveUpOn: [404, 410] })
  })

  it('is refused though it resembles one that is valid', () => {
    policy({ giveUpOn: [404], backoff: { base: 5 } })
    policy({})
    expect(refusal({ giveUpOn: [404, undefined], backoff: { base: 5 } }).field).toBe('giveUpOn[1]')
    expect(refusal({ giveUpOn: { 0: 404 }, backoff: { base: 5 } }).field).toBe('giveUpOn')
    expect(refusal({ giveUpOn: [404], backoff: { base: 5 }, signal: {} }).field).toBe('signal')
    expect(refusal(JSON.parse('{"__proto__":{}}')).field).toBe('__proto__')
  })

  it('is read from an instance of a class as from any object, and lends nothing to others', () => {
    class Eager {
      get attempts() {
        return 11
      }
    }
    policy({})
    expect(policy(new Eager()).attempts).toBe(11)
    expect(policy({}).attempts).toBe(3)
  })
})
