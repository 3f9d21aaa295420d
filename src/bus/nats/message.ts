import type { MsgHdrs } from '@nats-io/transport-node'
import type { Message, NewMessage } from '../bus.js'

/** Headers of ours. NATS's own for an id is not used: the broker drops a second message under it without a word. */
const ID = 'Redrive-Id'
/** For what is put into a queue: the subject of what is published says its type. */
const TYPE = 'Redrive-Type'
/** The one queue that a message is for; the others of its type pass it over. */
const QUEUE = 'Redrive-Queue'
const RESERVED = /^(redrive|nats)-/i

/** Writes what NATS carries beside the body. */
export function writeHeaders(headers: MsgHdrs, { id, type, headers: own = {} }: NewMessage, queue?: string): MsgHdrs {
  headers.set(ID, id)
  if (queue !== undefined) {
    headers.set(TYPE, type)
    headers.set(QUEUE, queue)
  }
  for (const [name, value] of Object.entries(own)) headers.set(name, value)
  return headers
}

/** A message as it came from NATS, whoever published it. `type` is what its subject says. */
export function fromNats(type: string, body: Uint8Array, headers: MsgHdrs | undefined): Message {
  const names = headers?.keys().filter(name => !RESERVED.test(name)) ?? []
  return {
    id: headers?.get(ID) || headers?.get('Nats-Msg-Id') || undefined,
    type: headers?.get(TYPE) || type,
    body,
    headers: Object.fromEntries(names.map(name => [name, headers?.get(name) ?? ''])),
  }
}

/** Whether a message is for a queue: for any, unless it names one. */
export function isFor(queue: string, headers: MsgHdrs | undefined): boolean {
  const named = headers?.get(QUEUE)
  return !named || named === queue
}
