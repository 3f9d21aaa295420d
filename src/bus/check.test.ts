import { describe, expect, it } from 'vitest'
import type { NewMessage } from './bus.js'
import { checkMessage } from './check.js'

const MESSAGE: NewMessage = { id: 'm1', type: 't', body: '' }
/** Passes values as untyped JavaScript would. */
const withBody = (body: unknown) => ({ ...MESSAGE, body }) as NewMessage

describe('a message', () => {
  it.each([undefined, null, 7, { order: 42 }, new ArrayBuffer(3)])(
    'whose body is neither text nor bytes is refused: %o',
    body => {
      expect(() => checkMessage(withBody(body))).toThrow("'body' must be text or a Uint8Array")
    },
  )

  it('may have an empty body', () => {
    for (const body of ['', new Uint8Array(), Buffer.alloc(0)]) checkMessage(withBody(body))
  })

  it('with a header of several lines is refused, and the value, which may be a secret, is not repeated', () => {
    const headers = { authorization: 'one\nhunter2' }
    expect(() => checkMessage({ ...MESSAGE, headers })).toThrow(
      /^The header 'authorization' must be text on one line, without control characters\.$/,
    )
  })

  it('whose headers no broker takes is refused, whether it is one or many', () => {
    const many = Object.fromEntries(Array.from({ length: 700 }, (_, i) => [`h${i}`, 'x'.repeat(100)]))
    for (const headers of [{ a: 'é'.repeat(30_000) }, many]) {
      expect(() => checkMessage({ ...MESSAGE, headers })).toThrow(/room for 60 kB in all/)
    }
    checkMessage({ ...MESSAGE, headers: { a: 'x'.repeat(59_000) } })
  })
})
