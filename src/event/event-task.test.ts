import { expect, it } from 'vitest'
import { bodyOf, eventTask } from './event-task.js'

const message = (body: Uint8Array) => ({ id: undefined, type: 'a', headers: { event: 'x', b: '"event":' }, body })

it.each<[string, Uint8Array]>([
  ['JSON with numbers that JavaScript rounds', Buffer.from('{"n":12345678901234567890, "x":1.0}')],
  ['a text that is not JSON', Buffer.from('{"cut')],
  ['a text that begins with a byte order mark', Buffer.from('\ufeffnot JSON')],
  ['bytes that are not text', Buffer.from([0xff, 0x00, 0xfe])],
  ['nothing', Buffer.from('')],
])('an event that waits keeps %s to the byte', (_, body) => {
  const { payload } = eventTask('q/1', 'q', message(body), 'service-key')
  expect(Buffer.from(bodyOf(payload))).toEqual(Buffer.from(body))
})
