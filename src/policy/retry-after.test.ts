import { afterEach, describe, expect, it } from 'vitest'
import { classify } from './classify.js'
import { policy } from './parse.js'

const NOW = Date.UTC(2026, 0, 1, 12, 0, 0)

/** The wait that a 429 asks for. */
function hintOf(failure: object): number | undefined {
  const verdict = classify({ status: 429, ...failure }, policy({ maxRetryAfter: '365d' }), NOW)
  return verdict.class === 'rate_limited' ? verdict.retryAfterMs : undefined
}
const hintIn = (headers: unknown) => hintOf({ headers })
const retryAfter = (value: unknown) => hintIn({ 'retry-after': value })

describe('Retry-After', () => {
  it.each<[unknown, number]>([
    ['0', 0],
    ['7', 7000],
    [' 7 ', 7000],
    ['007', 7000],
    ['1.5', 1500],
    ['0.0004', 0],
    [7, 7000],
    [1.5, 1500],
    [0, 0],
  ])('is read as seconds: %j', (value, expected) => {
    expect(retryAfter(value)).toBe(expected)
  })

  describe('is read as an HTTP date, from the time that it is now', () => {
    const { TZ } = process.env
    afterEach(() => {
      if (TZ === undefined) delete process.env.TZ
      else process.env.TZ = TZ
    })

    it.each([
      ['as it is written today', 'Thu, 01 Jan 2026 12:00:30 GMT'],
      ['as RFC 850 had it', 'Thursday, 01-Jan-26 12:00:30 GMT'],
      ['as C prints it', 'Thu Jan  1 12:00:30 2026'],
    ])('%s, in any time zone', (_, date) => {
      for (const zone of ['UTC', 'America/New_York', 'Asia/Kolkata']) {
        process.env.TZ = zone
        expect(retryAfter(date)).toBe(30_000)
      }
    })

    it('exactly now is no wait', () => {
      expect(retryAfter('Thu, 01 Jan 2026 12:00:00 GMT')).toBe(0)
    })

    it('and ignored when it has passed', () => {
      expect(retryAfter('Thu, 01 Jan 2026 11:59:59 GMT')).toBeUndefined()
    })
  })

  it.each<[string, unknown]>([
    ['negative seconds', '-5'],
    ['a negative number', -5],
    ['not a number', NaN],
    ['words', 'soon'],
    ['nothing', ''],
    ['blanks', '   '],
    ['a number with a unit', '5s'],
    ['hexadecimal', '0x10'],
    ['an exponent', '1e3'],
    ['a plus sign', '+5'],
    ['a fraction without a whole', '.5'],
    ['a date that is none', 'Mon, 99 Foo 2026 99:99:99 GMT'],
    ['a date in another format', '2026-01-02T00:00:00Z'],
    ['a month', 'January 5, 2027'],
    ['a word with a year', 'Wait 2030'],
    ['null', null],
    ['true', true],
    ['an object', {}],
    ['an empty list', []],
    ['a symbol', Symbol('7')],
  ])('that is unreadable is ignored: %s', (_, value) => {
    expect(retryAfter(value)).toBeUndefined()
  })

  it('of more than 24 hours is cut to that, however many digits it has', () => {
    const day = 24 * 3_600_000
    for (const value of [
      '86401',
      '9'.repeat(15),
      '9'.repeat(16),
      '9'.repeat(400),
      1e21,
      'Sun, 03 Jan 2027 12:00:00 GMT',
    ]) {
      expect(classify({ status: 429, headers: { 'retry-after': value } }, policy(), NOW)).toMatchObject({
        retryAfterMs: day,
      })
    }
    expect(classify({ status: 429, headers: { 'retry-after': '86400' } }, policy(), NOW)).toMatchObject({
      retryAfterMs: day,
    })
  })
})

describe('the headers', () => {
  it.each<[string, unknown]>([
    ['a Headers object', new Headers({ 'Retry-After': '7' })],
    ['a plain object in lower case', { 'retry-after': '7' }],
    ['a plain object in any case', { 'Retry-AFTER': '7' }],
    ['a Map in lower case', new Map([['retry-after', '7']])],
    ['an object without a prototype', Object.assign(Object.create(null), { 'Retry-After': '7' })],
    ['lists of values', { 'retry-after': ['7', '9'] }],
    ['numbers', { 'retry-after': 7 }],
    ['an object with a header by the name of get', { get: 'this', 'retry-after': '7' }],
  ])('may be %s', (_, headers) => {
    expect(hintIn(headers)).toBe(7000)
    expect(hintOf({ response: { headers } })).toBe(7000)
  })

  it.each<[string, unknown]>([
    ['null', null],
    ['a string', 'retry-after: 7'],
    ['a list', ['retry-after', '7']],
    ['empty', {}],
  ])('may be %s, without a hint', (_, headers) => {
    expect(hintIn(headers)).toBeUndefined()
  })

  it('of the response win over those of the error', () => {
    expect(hintOf({ headers: { 'retry-after': '7' }, response: { headers: { 'retry-after': '8' } } })).toBe(8000)
  })

  it('are read from a Response that was thrown or is carried', () => {
    const response = new Response(null, { status: 429, headers: { 'Retry-After': '7' } })
    expect(classify(response, policy(), NOW)).toMatchObject({ retryAfterMs: 7000 })
    expect(classify({ response }, policy(), NOW)).toMatchObject({ retryAfterMs: 7000 })
  })
})

describe('RateLimit', () => {
  it.each<[string, object, number | undefined]>([
    ['its reset', { ratelimit: 'limit=10, remaining=0, reset=30' }, 30_000],
    ['its reset when it comes first', { ratelimit: 'reset=30, limit=10' }, 30_000],
    ['its reset as a structured field', { RateLimit: '"default";r=0;t=30' }, 30_000],
    ['its reset in a list of one', { ratelimit: ['"default";r=0;t=30'] }, 30_000],
    ['RateLimit-Reset', { 'RateLimit-Reset': '30' }, 30_000],
    ['RateLimit-Reset as a number', { 'ratelimit-reset': 30 }, 30_000],
    ['no reset where there is none', { ratelimit: 'limit=10, remaining=0' }, undefined],
    ['no part of another word', { ratelimit: 'limit=10, preset=30, left=5' }, undefined],
    ['no negative reset', { ratelimit: 'reset=-30', 'ratelimit-reset': '-30' }, undefined],
    ['no date, which RateLimit-Reset never is', { 'ratelimit-reset': 'Thu, 01 Jan 2026 12:00:30 GMT' }, undefined],
  ])('gives %s', (_, headers, expected) => {
    expect(hintIn(headers)).toBe(expected)
  })

  it('gives way to Retry-After, and stands in for one that cannot be read', () => {
    const limits = { ratelimit: 'reset=30', 'ratelimit-reset': '40' }
    expect(hintIn({ ...limits, 'retry-after': '7' })).toBe(7000)
    expect(hintIn({ ...limits, 'retry-after': '0' })).toBe(0)
    expect(hintIn({ ...limits, 'retry-after': 'soon' })).toBe(30_000)
    expect(hintIn({ 'ratelimit-reset': '40', 'retry-after': '-1' })).toBe(40_000)
  })
})

describe('what an error itself says', () => {
  it('wins over the headers: retryAfterMs, then retryAfter in seconds or as a date', () => {
    const headers = { 'retry-after': '7' }
    expect(hintOf({ retryAfterMs: 5, retryAfter: 6, headers })).toBe(5)
    expect(hintOf({ retryAfterMs: 0, headers })).toBe(0)
    expect(hintOf({ retryAfter: 6, headers })).toBe(6000)
    expect(hintOf({ retryAfter: '6', headers })).toBe(6000)
    expect(hintOf({ retryAfter: 'Thu, 01 Jan 2026 12:00:06 GMT', headers })).toBe(6000)
  })

  it.each([-1, NaN, '5', null, undefined])('is ignored where it is unreadable: retryAfterMs %j', retryAfterMs => {
    expect(hintOf({ retryAfterMs, headers: { 'retry-after': '7' } })).toBe(7000)
  })
})
