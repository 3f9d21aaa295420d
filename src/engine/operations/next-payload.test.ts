import { describe, expect, it } from 'vitest'
import { payloadAfter } from './next-payload.js'

const patched = (kind: string, payload: string, patch: Readonly<Record<string, unknown>>) =>
  payloadAfter({ kind, payload }, patch, new Map())

describe('payloadAfter', () => {
  const event = '{"key":"k","message":{"id":"1","type":"t","headers":{}},"event":{"region":"us-9"}}'

  it('refuses a patch that misses the data of an event, which is in a field of its payload', async () => {
    expect(await patched('event:orders', event, { region: 'eu-1' })).toEqual({
      problem: "it is an event, with its data in 'event': 'region' would have no effect beside it",
    })
    for (const patch of [{ event: null }, { message: null }, { key: 7 }])
      expect(await patched('event:orders', event, patch)).toEqual({ problem: expect.stringContaining('and needs its') })
    expect(await patched('event:orders', event, { event: { region: 'eu-1' } })).toEqual({
      before: event,
      after: event.replace('us-9', 'eu-1'),
    })
  })

  it('refuses a patch after which the body of an event would be read as something else', async () => {
    const text = event.replace('"event":{"region":"us-9"}', '"raw_body":"<xml/>"')
    const bytes = text.replace('"<xml/>"', '"aGk=","encoding":"base64"')
    for (const [payload, patch] of [
      [event, { raw_body: 'x' }],
      [event, { encoding: 'base64' }],
      [event, { message: { type: null } }],
      [text, { event: {} }],
      [text, { raw_body: 5 }],
      [bytes, { encoding: null }],
    ] as const)
      expect(await patched('event:orders', payload, patch)).toEqual({
        problem: expect.stringMatching(/^it is an event/),
      })
    expect(await patched('event:orders', text, { raw_body: '{}' })).toEqual({
      before: text,
      after: text.replace('<xml/>', '{}'),
    })
  })

  it('refuses to patch the reference to a document', async () => {
    const reference = '{"collection":"chunks","id":"c1","lastAttemptAt":1,"attemptCount":3}'
    expect(await patched('document:chunks', reference, { id: 'c2' })).toEqual({
      problem: 'it only refers to a document: edit the document',
    })
  })

  it('knows no such payload where a task of a user has such a kind', async () => {
    expect(await patched('event:mine', '{"a":1}', { a: 2 })).toEqual({ before: '{"a":1}', after: '{"a":2}' })
  })
})
