import { describe, expect, it } from 'vitest'
import { MAX_PAYLOAD, patchedPayload } from './patch-payload.js'

describe('patchedPayload', () => {
  it('leaves the text as it is if nothing changes', () => {
    const text = '{ "n": 1.0, "to": "ada" }'
    expect(patchedPayload(text, { to: 'ada', cc: null })).toEqual({ payload: text })
    expect(patchedPayload(text, { to: 'bob' })).toEqual({ payload: '{"n":1.0,"to":"bob"}' })
    expect(patchedPayload(text, '{ "id": 9007199254740993 }')).toEqual({
      payload: '{"n":1.0,"to":"ada","id":9007199254740993}',
    })
  })

  it('says what is wrong with a payload that is not JSON, or becomes too long', () => {
    expect(patchedPayload('to ada', { to: 'bob' })).toEqual({ problem: 'it is not JSON' })
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`
    expect(patchedPayload(deep, { to: 'bob' })).toEqual({ payload: '{"to":"bob"}' })
    expect(patchedPayload(`{"deep":${deep}}`, { to: 'bob' })).toEqual({ payload: `{"deep":${deep},"to":"bob"}` })
    const long = patchedPayload('{}', { text: 'x'.repeat(MAX_PAYLOAD) })
    expect(long).toEqual({ problem: expect.stringMatching(/^it is 1048587 characters long, and 1048576 are/) })
  })
})
