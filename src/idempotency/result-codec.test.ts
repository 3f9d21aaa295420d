import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { IdempotencyResultUnavailableError } from './errors.js'
import { decodeResult, encodeResult } from './result-codec.js'

const there = (result: unknown) => decodeResult('k', encodeResult(result))

describe('a stored result', () => {
  it.each([[undefined], [null], [false], [0], [''], [[]], [{}]])('comes back as it was: %j', result => {
    expect(there(result)).toStrictEqual(result)
  })

  it('comes back as it was, whatever JSON it is', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), result => {
        expect(there(result)).toEqual(JSON.parse(JSON.stringify(result)))
      }),
    )
  })

  it('may look like the marker of a result that is not there', () => {
    expect(there({ unavailable: 'no' })).toEqual({ unavailable: 'no' })
  })

  const cyclic: unknown[] = []
  cyclic.push(cyclic)
  it.each([
    ['a bigint', 1n, /a bigint/],
    ['a function', () => 1, /a function/],
    ['a function inside', { fn() {} }, /a function \('fn'\)/],
    ['a cycle', cyclic, /circular/],
    ['a Map', new Map([[1, 2]]), /a Map/],
    ['an Error with a code', Object.assign(new Error('x'), { code: 'E' }), /an? Error/],
    ['infinity', { n: Infinity }, /Infinity/],
    [
      'a toJSON that throws',
      {
        toJSON: () => {
          throw new Error('not today')
        },
      },
      /not today/,
    ],
  ])('of %s is marked as unavailable, with the reason', (_what, result, reason) => {
    const read = () => there(result)
    expect(read).toThrow(IdempotencyResultUnavailableError)
    expect(read).toThrow(reason)
  })

  it.each(['', 'null', '7', '{"value":'])('that nobody here wrote (%j) is unavailable, not a crash', text => {
    expect(() => decodeResult('k', text)).toThrow(IdempotencyResultUnavailableError)
  })
})
