import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { MAX_PAYLOAD, mergePatch, patchedPayload } from './patch-payload.js'

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
  ])('of %s and %s is %s', (target, patch, merged) => {
    expect(JSON.stringify(mergePatch(JSON.parse(target), JSON.parse(patch)))).toBe(merged)
  })

  it('treats __proto__ and constructor as fields, and changes neither its arguments nor any prototype', () => {
    const target = JSON.parse('{"__proto__":{"a":1},"constructor":{"b":1}}')
    const patch = JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}')
    expect(JSON.stringify(mergePatch(target, patch))).toBe(
      '{"__proto__":{"a":1,"polluted":true},"constructor":{"b":1,"prototype":{"polluted":true}}}',
    )
    expect(JSON.stringify(target)).toBe('{"__proto__":{"a":1},"constructor":{"b":1}}')
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined()
  })

  it('changes nothing when it is applied again', () => {
    const object = fc.dictionary(fc.string(), fc.jsonValue())
    fc.assert(
      fc.property(fc.jsonValue(), object, (target, patch) => {
        const once = mergePatch(target, patch)
        expect(mergePatch(once, patch)).toEqual(once)
      }),
    )
  })
})

describe('patchedPayload', () => {
  it('leaves the text as it is if nothing changes', () => {
    const text = '{ "n": 1.0, "to": "ada" }'
    expect(patchedPayload(text, { to: 'ada', cc: null })).toEqual({ payload: text })
    expect(patchedPayload(text, { to: 'bob' })).toEqual({ payload: '{"n":1,"to":"bob"}' })
  })

  it('says what is wrong with a payload that is not JSON, is nested too deeply, or becomes too long', () => {
    expect(patchedPayload('to ada', { to: 'bob' })).toEqual({ problem: 'it is not JSON' })
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    expect(patchedPayload(deep, { to: 'bob' })).toEqual({ payload: '{"to":"bob"}' })
    expect(patchedPayload(`{"deep":${deep}}`, { to: 'bob' })).toEqual({ problem: 'its fields are nested too deeply' })
    const long = patchedPayload('{}', { text: 'x'.repeat(MAX_PAYLOAD) })
    expect(long).toEqual({ problem: expect.stringMatching(/^it is 1048587 characters long, and 1048576 are/) })
  })
})
