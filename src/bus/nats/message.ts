import type { MsgHdrs } from '@nats-io/transport-node'
import type { Message, NewMessage } from '../bus.js'
import type { Headers } from './headers.js'

/**
 * Redrive's own header. With `Nats-Msg-Id` instead, the broker would silently drop a second message with the same id.
 */
const ID = 'Redrive-Id'
/** The type of a message that was put into a queue. A published message has its type in the subject. */
const TYPE = 'Redrive-Type'
/** The one queue that a message is for; other queues of its type skip it. */
const QUEUE = 'Redrive-Queue'
const RESERVED = /^(redrive|nats)-/i

/** Writes a message's id, type, queue and own headers into NATS headers. */
export function writeHeaders(headers: MsgHdrs, { id, type, headers: own = {} }: NewMessage, queue?: string): MsgHdrs {
  headers.set(ID, id)
  if (queue !== undefined) {
    headers.set(TYPE, type)
    headers.set(QUEUE, queue)
  }
  for (const [name, value] of Object.entries(own)) headers.set(name, value)
  return headers
}

/** Converts a message from NATS, whichever program published it. `type` comes from its subject. */
export function fromNats(type: string, body: Uint8Array, { headers, unreadable }: Headers): Message {
  const names = headers?.keys().filter(name => !RESERVED.test(name)) ?? []
  return {
    id: headers?.get(ID) || headers?.get('Nats-Msg-Id') || undefined,
    type: headers?.get(TYPE) || type,
    body,
    // A header may come several times, which only other programs do.
    headers: Object.fromEntries(names.map(name => [name, headers?.values(name).join(', ') ?? ''])),
    unreadable,
  }
}

/** Returns whether a message is for a queue. A message that names no queue is for all. */
export function isFor(queue: string, headers: MsgHdrs | undefined): boolean {
  const named = headers?.get(QUEUE)
  return !named || named === queue
}
