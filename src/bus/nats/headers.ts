import type { Msg, MsgHdrs } from '@nats-io/transport-node'
import type { UnreadableHeaders } from '../bus.js'
import { textOrBase64 } from '../message.js'

/** The headers of a message. */
export interface Headers {
  /** Those that could be read. */
  readonly headers: MsgHdrs | undefined
  readonly unreadable?: UnreadableHeaders
}

/**
 * Reads the headers of a delivered message. The server accepts any bytes as a header, but the client throws on a name
 * with a space or beyond ASCII, and on a line break within a value. Thrown inside a subscription's callback, that would
 * end the connection, and the message would end the next one too.
 */
export function headersOf(message: Msg, create: () => MsgHdrs): Headers {
  try {
    return { headers: message.headers }
  } catch (problem) {
    return readableHeaders(rawHeadersOf(message), problem, create())
  }
}

/** Reads what can be read of the headers that the client refuses, into an empty set. */
export function readableHeaders(bytes: Uint8Array, problem: unknown, headers: MsgHdrs): Headers {
  for (const line of Buffer.from(bytes).toString().split('\r\n').slice(1)) {
    const colon = line.indexOf(':')
    try {
      if (colon > 0) headers.append(line.slice(0, colon), line.slice(colon + 1))
    } catch {
      // `raw` has it.
    }
  }
  const reason = problem instanceof Error ? problem.message : String(problem)
  return { headers, unreadable: { reason, ...textOrBase64(bytes) } }
}

/** The bytes before the body, which the client keeps but does not declare. */
function rawHeadersOf(message: Msg): Uint8Array {
  const all: unknown = Reflect.get(message, '_rdata')
  return all instanceof Uint8Array ? all.subarray(0, all.length - message.data.length) : new Uint8Array()
}
