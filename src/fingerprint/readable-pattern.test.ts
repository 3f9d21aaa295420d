import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { failurePatterns } from '../../test/failure-patterns.js'
import { fingerprint } from './fingerprint.js'
import { maskMessage } from './mask-message.js'
import { readablePattern } from './readable-pattern.js'

const readable = (message: string) => readablePattern(message, maskMessage(message))
/** The letters and digits of a text, in their order. */
const words = (text: string) => text.replace(/[^\p{L}\p{N}]/gu, '')

describe('a pattern for people', () => {
  it.each([
    ["Cannot read properties of undefined (reading 'id')", "Cannot read properties of undefined (reading 'id')"],
    ["user 'ada' has no address", "user '*' has no address"],
    ['order 42 not found', 'order * not found'],
    ['row order-981 is locked', 'row order-* is locked'],
    ['connect ECONNREFUSED ::1:5432', 'connect ECONNREFUSED *'],
    ['waited 150ms for lock', 'waited * for lock'],
    ['ticket SUP-2041: 1 of 12 lines is empty', 'ticket SUP-* of * line is empty'],
    ['订单981不存在', '订单*不存在'],
    ["EACCES: permission denied, mkdir '/a/b'", "EACCES: permission denied, mkdir '*'"],
    ['column "street" does not exist', 'column "street" does not exist'],
    ["user 'has' has no address", "user '*' has no address"],
    ['', ''],
  ])('of %s has its punctuation', (message, pattern) => {
    expect(readable(message)).toBe(pattern)
  })

  it('has the words of the pattern, and no others', () => {
    const corpus = ['everyday.txt', 'held-out.txt'].flatMap(name =>
      failurePatterns(name).flatMap(({ errors }) => errors),
    )
    expect(corpus.filter(message => words(readable(message)) !== words(maskMessage(message)))).toEqual([])
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 80 }), message => {
        expect(words(readable(message))).toBe(words(maskMessage(message)))
      }),
    )
    const pieces = fc.constantFrom(
      'order',
      ' ',
      '42',
      "'ada'",
      '"x y"',
      '(',
      ')',
      ': ',
      ', ',
      'a-7',
      'key=9',
      '{"id":1}',
      'lines',
      '1',
    )
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 15 }), parts => {
        const message = parts.join('')
        expect(words(readable(message)), message).toBe(words(maskMessage(message)))
      }),
    )
  })

  it('is part of a fingerprint, whose id is that of the words alone', () => {
    const of = (error: string) => fingerprint({ kind: 'k', code: 'E', error })
    expect(of("Error: user 'ada' has no address").pattern).toBe("user '*' has no address")
    expect(of("Error: user 'ada' has no address").id).toBe(of('Error: user "bob" has no address').id)
  })
})
