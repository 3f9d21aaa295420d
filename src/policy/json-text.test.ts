import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compactJson, exactJson, exactValue, indentedJson, membersOf, mergePatch } from './json-text.js'

/** Numbers as JavaScript would not write them. */
const ODD = ['9007199254740993', '-0', '1.0', '1e400', '1E2', '0.10', '-12345678901234567890.123456789012345678901']
const DEEP = `${'[{"a":'.repeat(50_000)}1.0${'}]'.repeat(50_000)}`

/** JSON texts with odd numbers, unusual white space and repeated names. */
const json = fc.letrec<{ value: string; object: string }>(tie => {
  const space = fc.constantFrom('', ' ', '\n\t ')
  const text = fc.oneof(fc.string(), fc.string({ unit: 'binary' })).map(value => JSON.stringify(value))
  const name = fc.oneof(fc.constantFrom('"a"', '"b"', '"__proto__"', '"\\u0061"', '"1"', '""'), text)
  const member = fc.tuple(space, name, space, tie('value'), space)
  const object = fc.array(member, { maxLength: 4 }).map(all => {
    return `{${all.map(([a, key, b, value, c]) => `${a}${key}${b}:${value}${c}`).join()}}`
  })
  const list = fc
    .array(fc.tuple(space, tie('value'), space), { maxLength: 4 })
    .map(all => `[${all.map(one => one.join('')).join()}]`)
  const number = fc.oneof(fc.constantFrom(...ODD), fc.double({ noNaN: true, noDefaultInfinity: true }).map(String))
  const bare = fc.oneof(fc.constantFrom('null', 'true', 'false'), number, text)
  return { value: fc.oneof({ maxDepth: 4 }, bare, object, list), object }
})

describe('JSON text', () => {
  it('is compacted and indented as JSON.stringify writes it', () => {
    fc.assert(
      fc.property(fc.jsonValue(), value => {
        const [compact, indented] = [JSON.stringify(value), JSON.stringify(value, null, 2)]
        expect(compactJson(indented)).toBe(compact)
        expect(indentedJson(compact)).toBe(indented)
      }),
    )
  })

  it('keeps its tokens, numbers among them, when it is compacted and indented', () => {
    fc.assert(
      fc.property(json.value, text => {
        expect(compactJson(indentedJson(text))).toBe(compactJson(text))
        expect(JSON.parse(compactJson(text))).toEqual(JSON.parse(text))
      }),
    )
    for (const number of ODD) expect(compactJson(` [ ${number} ] `)).toBe(`[${number}]`)
    expect(compactJson(` ${DEEP}`)).toBe(DEEP)
  })

  it('has the members that JSON.parse finds', () => {
    fc.assert(
      fc.property(json.value, text => {
        const value: unknown = JSON.parse(text)
        const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
        const members = membersOf(text)
        expect(members !== undefined).toBe(isObject)
        if (isObject) {
          const parsed = Array.from(members ?? [], ([name, part]) => [name, JSON.parse(part)] as const)
          expect(Object.fromEntries(parsed)).toEqual(value)
        }
      }),
    )
    expect(membersOf(`{"deep":${DEEP}}`)?.get('deep')).toBe(DEEP)
    const escapes = `"${'\\\\'.repeat(500_000)}"`
    expect(membersOf(`{"a":${escapes}}`)?.get('a')).toBe(escapes)
  })
})

describe('mergePatch', () => {
  // RFC 7396, appendix A: the original, the patch, the result.
  it.each([
    ['{"a":"b"}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"b"}', '{"b":"c"}', '{"a":"b","b":"c"}'],
    ['{"a":"b"}', '{"a":null}', '{}'],
    ['{"a":"b","b":"c"}', '{"a":null}', '{"b":"c"}'],
    ['{"a":["b"]}', '{"a":"c"}', '{"a":"c"}'],
    ['{"a":"c"}', '{"a":["b"]}', '{"a":["b"]}'],
    ['{"a":{"b":"c"}}', '{"a":{"b":"d","c":null}}', '{"a":{"b":"d"}}'],
    ['{"a":[{"b":"c"}]}', '{"a":[1]}', '{"a":[1]}'],
    ['["a","b"]', '["c","d"]', '["c","d"]'],
    ['{"a":"b"}', '["c"]', '["c"]'],
    ['{"a":"foo"}', 'null', 'null'],
    ['{"a":"foo"}', '"bar"', '"bar"'],
    ['{"e":null}', '{"a":1}', '{"e":null,"a":1}'],
    ['[1,2]', '{"a":"b","c":null}', '{"a":"b"}'],
    ['{}', '{"a":{"bb":{"ccc":null}}}', '{"a":{"bb":{}}}'],
    // The example of its section 3.
    [
      '{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},"tags":["example","sample"],"content":"This will be unchanged"}',
      '{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}',
      '{"title":"Hello!","author":{"givenName":"John"},"tags":["example"],"content":"This will be unchanged","phoneNumber":"+01-123-456-7890"}',
    ],
    // Numbers and names as they are.
    ['{"id":9007199254740993,"2":1,"1":1}', '{"n":1.0}', '{"id":9007199254740993,"2":1,"1":1,"n":1.0}'],
    ['{"id":9007199254740992}', '{"id":9007199254740993}', '{"id":9007199254740993}'],
    ['{"a":{"x":1e400,"y":1}}', '{"a":{"y":-0}}', '{"a":{"x":1e400,"y":-0}}'],
    // The last of several members with the same name counts, as it does for a handler.
    ['{"a":1,"b":1,"a":{"x":1}}', '{"a":{"y":2}}', '{"a":{"x":1,"y":2},"b":1}'],
    [
      '{"__proto__":{"a":1},"constructor":{"b":1}}',
      '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
      '{"__proto__":{"a":1,"polluted":true},"constructor":{"b":1,"prototype":{"polluted":true}}}',
    ],
  ])('of %s and %s is %s', (target, patch, merged) => {
    expect(mergePatch(target, patch)).toBe(merged)
  })

  it('merges as values do, and changes nothing when it is applied again', () => {
    const merge = (target: unknown, patch: unknown): unknown => {
      if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
      const isObject = typeof target === 'object' && target !== null && !Array.isArray(target)
      const merged = new Map<string, unknown>(isObject ? Object.entries(target) : [])
      for (const [name, value] of Object.entries(patch)) {
        if (value === null) merged.delete(name)
        else merged.set(name, merge(merged.get(name), value))
      }
      return Object.fromEntries(merged)
    }
    fc.assert(
      fc.property(json.value, json.value, (target, patch) => {
        const once = mergePatch(target, patch)
        expect(JSON.parse(once)).toEqual(merge(JSON.parse(target), JSON.parse(patch)))
        expect(mergePatch(once, patch)).toBe(once)
      }),
    )
  })

  it('keeps the text if only white space and escapes differ', () => {
    const text = '{ "to": "\\u0061da", "n": [1, 2] }'
    expect(mergePatch(text, '{"to":"ada","n":[1,2],"cc":null}')).toBe(text)
  })
})

describe('exactJson', () => {
  it('writes values as the texts that they were read from', () => {
    fc.assert(
      fc.property(json.value, text => {
        const view = { id: 'a', payload: exactValue(text), more: [1, { payload: exactValue(text) }] }
        const exact = typeof JSON.parse(text) === 'string' ? JSON.stringify(JSON.parse(text)) : compactJson(text)
        expect(exactJson({ ...view })).toBe(`{"id":"a","payload":${exact},"more":[1,{"payload":${exact}}]}`)
      }),
    )
  })

  it('gives a value that other code can use as ever', () => {
    expect(exactValue('{"id":9007199254740993}')).toEqual({ id: 2 ** 53 })
    expect(exactValue('{"a":[1,"x",null]}')).toEqual({ a: [1, 'x', null] })
    expect(JSON.stringify({ n: exactValue('9007199254740993') })).toBe('{"n":9007199254740992}')
    const changed = exactValue('{"id":9007199254740993}')
    expect(exactJson(Object.assign(changed as object, { by: 'ada' }))).toBe('{"id":9007199254740992,"by":"ada"}')
    expect(exactValue('no JSON')).toBe('no JSON')
    expect(exactValue(DEEP)).toBe(DEEP)
  })
})
