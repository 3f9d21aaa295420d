import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { containing } from './json-contains.js'

describe('containing', () => {
  it.each([
    ['{"a":1,"b":2}', '{"a":1}', true],
    ['{"a":1}', '{"a":1,"b":2}', false],
    ['{"a":{"b":{"c":"x"},"d":1}}', '{"a":{"b":{"c":"x"}}}', true],
    ['{"a":{"b":1}}', '{"b":1}', false],
    ['{"a":{"b":1}}', '{"a":{}}', true],
    ['{"a":null}', '{"a":null}', true],
    ['{}', '{"a":null}', false],
    ['{"a":"1"}', '{"a":1}', false],
    ['{"a":"true"}', '{"a":true}', false],
    ['{"a":[3,1,2]}', '{"a":[1,3]}', true],
    ['{"a":[1]}', '{"a":[1,1]}', true],
    ['{"a":[[1,2],{"b":1,"c":2}]}', '{"a":[{"c":2},[2]]}', true],
    ['{"a":[1]}', '{"a":1}', false],
    ['{"a":{"0":1}}', '{"a":[1]}', false],
    ['{"a":[]}', '{"a":[]}', true],
    ['{"a":1.0}', '{"a":1}', true],
    ['{"a":1e2}', '{"a":100}', true],
    ['{"a":0.10}', '{"a":1E-1}', true],
    ['{"a":-0.0}', '{"a":0}', true],
    ['{"a":-1}', '{"a":1}', false],
    ['{"a":9007199254740993}', '{"a":9007199254740993}', true],
    ['{"a":9007199254740993}', '{"a":9007199254740992}', false],
    ['{"a":0.1000000000000000000001}', '{"a":0.1}', false],
    ['{"a":1e99999999999999999999}', '{"a":1e99999999999999999998}', false],
    ['{"\\u0061":"\\u0062"}', '{"a":"b"}', true],
    ['{"a":"\\u0000\\ud800"}', '{"a":"\\u0000\\ud800"}', true],
    ['{"a":1,"a":2}', '{"a":2}', true],
    ['{"a":1,"a":2}', '{"a":1}', false],
    ['{"__proto__":{"a":1}}', '{"__proto__":{"a":1}}', true],
    ['{}', '{"__proto__":{}}', false],
    ['{"a":{}}', '{"a":{"toString":{}}}', false],
    ['{"a":"sx"}', '{"a":"x"}', false],
    [' {"a" : 1 } ', '{"a":1}', true],
    ['"{\\"a\\":1}"', '{"a":1}', false],
    ['[{"a":1}]', '{"a":1}', false],
    ['gAAAAABm', '{"a":1}', false],
    ['{"a":1', '{"a":1}', false],
    ['', '{"a":1}', false],
  ])('%s contains %s: %s', (json, part, expected) => {
    expect(containing(part)(json)).toBe(expected)
  })

  it('finds what is left of an object without some of its fields', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), fc.infiniteStream(fc.boolean()), (object, coin) => {
        const part = Object.fromEntries(Object.entries(object).filter(() => coin.next().value))
        expect(containing(JSON.stringify(part))(JSON.stringify(object))).toBe(true)
      }),
    )
  })

  it('takes a moment for a number of a million zeros', () => {
    expect(containing('{"a":1}')(`{"a":0.${'0'.repeat(1_000_000)}1}`)).toBe(false)
  })
})
