import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from './canonical-json.js'

describe('canonical JSON', () => {
  it.each<[unknown, string]>([
    [null, 'null'],
    [true, 'true'],
    [false, 'false'],
    ['a"b\\c\n\u0001é€🚀', '"a\\"b\\\\c\\n\\u0001é€🚀"'],
    [[], '[]'],
    [{}, '{}'],
    [[3, [1, 2], { b: 1, a: 2 }], '[3,[1,2],{"a":2,"b":1}]'],
    [{ b: { d: 1, c: 2 }, a: [] }, '{"a":[],"b":{"c":2,"d":1}}'],
    [{ a: undefined, b: 1 }, '{"b":1}'],
    [[undefined, 1], '[null,1]'],
    // biome-ignore lint/suspicious/noSparseArray: the hole is the case.
    [[1, , 2], '[1,null,2]'],
    [{ at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    [Object.assign(Object.create(null), { b: 1, a: 2 }), '{"a":2,"b":1}'],
    [JSON.parse('{"__proto__":1}'), '{"__proto__":1}'],
  ])('of case %# is %s', (value, expected) => {
    expect(canonicalJson(value)).toBe(expected)
  })

  it('writes numbers as RFC 8785 does', () => {
    // From the RFC's appendix B, but for what JSON cannot hold.
    const numbers: [number, string][] = [
      [0, '0'],
      [-0, '0'],
      [5e-324, '5e-324'],
      [-5e-324, '-5e-324'],
      [1.7976931348623157e308, '1.7976931348623157e+308'],
      [9007199254740992, '9007199254740992'],
      [295147905179352830000, '295147905179352830000'],
      [9.999999999999997e22, '9.999999999999997e+22'],
      [1e23, '1e+23'],
      [999999999999999700000, '999999999999999700000'],
      [1e21, '1e+21'],
      [9.999999999999997e-7, '9.999999999999997e-7'],
      [0.000001, '0.000001'],
      [333333333.3333332, '333333333.3333332'],
    ]
    for (const [number, expected] of numbers) expect(canonicalJson(number)).toBe(expected)
  })

  it('sorts keys by their UTF-16 code units, as RFC 8785 does', () => {
    const keys = ['€', '\r', '\ufb33', '1', '😀', '\u0080', 'ö']
    const value = Object.fromEntries(keys.map(key => [key, key]))
    const sorted = ['\r', '1', '\u0080', 'ö', '€', '😀', '\ufb33']
    expect(Object.keys(JSON.parse(canonicalJson(value)))).toEqual(['1', ...sorted.filter(key => key !== '1')])
    expect(canonicalJson(value)).toBe(
      `{${sorted.map(key => `${JSON.stringify(key)}:${JSON.stringify(key)}`).join(',')}}`,
    )
  })

  it('does not depend on the order of keys, at any depth', () => {
    fc.assert(
      fc.property(fc.jsonValue(), value => {
        expect(canonicalJson(reversed(value))).toBe(canonicalJson(value))
      }),
    )
  })

  it('loses nothing: what it writes is the data, and writing that again gives the same text', () => {
    fc.assert(
      fc.property(fc.jsonValue(), value => {
        const text = canonicalJson(value)
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
        expect(canonicalJson(JSON.parse(text))).toBe(text)
      }),
    )
  })

  it('gives different text to different data', () => {
    const values = [
      null,
      0,
      '0',
      '',
      [],
      [[]],
      {},
      [null],
      { a: null },
      { a: [] },
      'null',
      ['a', 'b'],
      ['a,b'],
      { a: 1, b: 2 },
    ]
    expect(new Set(values.map(canonicalJson)).size).toBe(values.length)
  })

  it.each<[string, unknown, string]>([
    ['nothing at all', undefined, 'undefined'],
    ['NaN', NaN, 'NaN'],
    ['an infinity', { a: [Infinity] }, 'Infinity'],
    ['a bigint', { a: 1n }, 'a bigint'],
    ['a function', { a: () => 1 }, 'a function'],
    ['a symbol', { a: Symbol('s') }, 'a symbol'],
    ['a Map, which would lose all that it holds', { a: new Map([[1, 2]]) }, 'a Map'],
    ['a Set', [new Set()], 'a Set'],
    ['a lone surrogate', { a: '\ud800' }, 'a lone surrogate'],
    ['a lone surrogate in a key', { '\udc00': 1 }, 'a lone surrogate'],
    ['an object that contains itself', cyclic(), 'contains itself'],
    ['a list that contains itself', cyclicList(), 'contains itself'],
    ['an object that contains itself through its toJSON', { toJSON: cyclic }, 'contains itself'],
  ])('refuses %s with a TypeError that says so', (_, value, words) => {
    expect(() => canonicalJson(value)).toThrow(TypeError)
    expect(() => canonicalJson(value)).toThrow(words)
  })

  it('asks toJSON once, as JSON.stringify does', () => {
    class Money {
      amount = 5
      toJSON(): unknown {
        return this.amount > 0 ? { amount: this.amount, toJSON: undefined } : this
      }
    }
    expect(canonicalJson({ price: new Money() })).toBe('{"price":{"amount":5}}')
    const self = Object.defineProperty({ a: 1 }, 'toJSON', { value: () => self })
    expect(canonicalJson(self)).toBe(JSON.stringify(self))
  })

  it('writes an object that occurs twice, but not within itself, twice', () => {
    const shared = { a: 1 }
    expect(canonicalJson([shared, { shared }])).toBe('[{"a":1},{"shared":{"a":1}}]')
  })

  function cyclic(): object {
    const value: Record<string, unknown> = { a: { b: {} } }
    value.a = { b: value }
    return value
  }

  function cyclicList(): unknown[] {
    const list: unknown[] = []
    list.push([list])
    return list
  }

  function reversed(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(reversed)
    if (typeof value !== 'object' || value === null) return value
    const copy = Object.create(null)
    for (const [key, member] of Object.entries(value).reverse()) copy[key] = reversed(member)
    return copy
  }
})
