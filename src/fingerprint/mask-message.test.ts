import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { failurePatterns } from '../../test/failure-patterns.js'
import { maskMessage } from './mask-message.js'
import { MAX_PATTERN } from './pattern.js'

const SAMPLES = [...failurePatterns('everyday.txt'), ...failurePatterns('held-out.txt')].flatMap(({ errors }) => errors)

test.each([
  ["user 'ada' has no address", 'user * has no address'],
  ['POST https://a.example/x?y=1 took 1.5 s', 'POST * took *'],
  ['connect ECONNREFUSED [::1]:5432', 'connect ECONNREFUSED *'],
  ['ticket SUP-2041: 1 of 12 lines is empty', 'ticket SUP-* * of * line is empty'],
  ['worker-7f9c-xkjdq stopped', 'worker-* stopped'],
  ['relation "audit_20261115" does not exist', 'relation audit_* does not exist'],
  ['id=7, name="ada lovelace", mode=fast', 'id=* name * mode=*'],
  ['ids 1, 2, 3 and 44 are taken', 'ids * and * are taken'],
  ['id 1, id 2, id 3 are taken', 'id * are taken'],
  ['订单981不存在', '订单*不存在'],
  ['الطلب ٤٢ غير موجود', 'الطلب * غير موجود'],
  ['„Ada“ is not «known» to 「us」', '* is not * to *'],
  ["can't open the user's file", "can't open the user's file"],
  ['due Mon, 16 Nov 2026 07:03:18 GMT at the latest', 'due * at the latest'],
  ['due Mon Nov 16 2026 07:03:18 GMT+0000 (UTC)', 'due * UTC'],
  ['token=[redacted] was refused', 'token * was refused'],
  ['sent to ada@example.com via arn:aws:sns:eu-west-1:123:x', 'sent to * via *'],
  ['a long text that redaction cut… (4711 characters)', 'a long text that redaction cut'],
  // Without its quotes, the name would be taken for an id the next time.
  ['The "arg2" argument is missing', 'The "arg2" argument is missing'],
  ['GET /orders/42?full=1 failed', 'GET * failed'],
  ['', ''],
])('%s becomes %s', (message, pattern) => {
  expect(maskMessage(message)).toBe(pattern)
  expect(maskMessage(pattern)).toBe(pattern)
})

test.each([
  ['column "street" does not exist', 'column "city" does not exist'],
  ['replied with status 502', 'replied with status 503'],
  ['killed by signal 9', 'killed by signal 15'],
  ['SQLSTATE 40P01', 'SQLSTATE 57014'],
  ["reading 'id'", "reading 'items'"],
  ["EACCES: permission denied, mkdir '/a'", "EACCES: permission denied, unlink '/a'"],
  ['digest md5', 'digest sha512'],
  ['HTTP/1.0 refused', 'HTTP/1.1 refused'],
  ['{"path":["street"]}', '{"path":["city"]}'],
  ['404 Not Found', '410 Gone'],
  ['got 502 Bad Gateway', 'got 503 Service Unavailable'],
  ['TLSv1.0 is off', 'TLSv1.1 is off'],
  ['ORA-00942', 'ORA-00001'],
  ['{"code":11000}', '{"code":211}'],
  ['violates unique constraint "a_key"', 'violates unique constraint "b_key"'],
])('tells %s from %s', (one, other) => {
  expect(maskMessage(one)).not.toBe(maskMessage(other))
})

test('a three-digit number that counts something is no status', () => {
  expect(maskMessage('150 rows were locked')).toBe('* row were locked')
  expect(maskMessage('got 310 items')).toBe('got * item')
  expect(maskMessage('120 seconds elapsed')).toBe('* elapsed')
})

/** Texts of everything that the rules look at, in any order. */
const text = fc
  .array(
    fc.oneof(
      fc.constantFrom(...SAMPLES.flatMap(sample => sample.split(/(?<=\s)/))),
      fc.constantFrom(...'"\'`=:*{}[]() \\/.-_@“”,', ')=(', '://', '\\"', 'ms', 'rows', 'é', '٣', '订单', '😀'),
      fc.constantFrom('column', 'code', 'path', 'message', 'status', '502', 'value of ', 'ENOTFOUND ', 'a1', 'ab12'),
      fc.string({ unit: 'binary', maxLength: 6 }),
    ),
    { maxLength: 30 },
  )
  .map(parts => parts.join(''))

describe('any message', () => {
  it('is masked without an error, within the bound, on one line', () => {
    fc.assert(
      fc.property(fc.oneof(text, fc.string({ unit: 'binary', maxLength: 3000 })), message => {
        const pattern = maskMessage(message)
        expect(pattern.length).toBeLessThanOrEqual(MAX_PATTERN)
        expect(pattern).not.toMatch(/\d{6}|[\n\r]/)
      }),
    )
  })

  it('is masked once for all: masking its pattern changes nothing', () => {
    for (const sample of SAMPLES) expect(maskMessage(maskMessage(sample))).toBe(maskMessage(sample))
    fc.assert(
      fc.property(text, message => {
        expect(maskMessage(maskMessage(message))).toBe(maskMessage(message))
      }),
    )
  })

  it('has the same pattern whatever its ids, numbers, times and addresses are', () => {
    const value = fc.oneof(
      fc.nat(),
      fc.uuid(),
      fc.ipV4(),
      fc.ipV6().filter(address => !address.endsWith('::')),
      fc.tuple(fc.stringMatching(/^[a-z][a-z0-9.+_-]{0,9}$/), fc.domain()).map(parts => parts.join('@')),
      fc.webUrl().map(url => url.replaceAll(/['()]/g, '')),
      fc.integer({ min: 6, max: 64 }).chain(length => fc.stringMatching(new RegExp(`^\\d[0-9a-f]{${length}}$`))),
      fc.date({ noInvalidDate: true, min: new Date(0), max: new Date(2e12) }).map(date => date.toISOString()),
      fc.tuple(fc.nat(), fc.constantFrom('ms', 's', ' MB', ' bytes', ' minutes', '%')).map(parts => parts.join('')),
      fc.stringMatching(/^[a-z ]{1,20}$/).map(name => `'x${name}x'`),
    )
    fc.assert(
      fc.property(value, value, (one, other) => {
        for (const template of ['order ◆ is locked', 'cannot read ◆: not there', 'no answer from ◆ after a while']) {
          expect(maskMessage(template.replace('◆', () => `${one}`))).toBe(
            maskMessage(template.replace('◆', () => `${other}`)),
          )
        }
      }),
    )
  })

  it('is looked at within a window, and costs what its window costs', () => {
    const repeated = [
      '"',
      "'",
      "a'",
      '(',
      'a=',
      '1.',
      '://',
      '{"',
      '\\"',
      '"a":',
      'é',
      'Mon, 1',
      '<',
      '-',
      './',
      '[',
      'code:[',
    ]
    for (const part of repeated) {
      const huge = part.repeat(Math.ceil(65_536 / part.length))
      expect(maskMessage(huge)).toBe(maskMessage(huge.slice(0, 1000)))
    }
  })
})
