import { activeTraceparent } from '../attempt/index.js'
import { traceparentOf } from '../telemetry/internal.js'
import type { Message, NewMessage, UnreadableHeaders } from './bus.js'

const UTF8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Returns the body of a message as text. Throws a `SyntaxError` if it is not UTF-8, rather than replace characters and
 * change the text.
 */
export function textOf({ body }: Pick<Message, 'body'>): string {
  try {
    return UTF8.decode(body)
  } catch {
    throw new SyntaxError(`The body of the message (${body.length} bytes) is not UTF-8 text.`)
  }
}

/** Bytes as JSON can hold them: their text, or base64 if they are not UTF-8. */
export function textOrBase64(bytes: Uint8Array): Pick<UnreadableHeaders, 'raw' | 'encoding'> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const text = buffer.toString()
  // Text that does not give the same bytes again was not UTF-8.
  return Buffer.from(text).equals(buffer) ? { raw: text } : { raw: buffer.toString('base64'), encoding: 'base64' }
}

/** Returns the body of a new message as bytes. */
export function bytesOf({ body }: NewMessage): Uint8Array {
  return typeof body === 'string' ? new TextEncoder().encode(body) : body
}

/** Returns a message with the span that publishes it in its headers, unless the publisher has named one. */
export function withTrace(message: NewMessage): NewMessage {
  const traceparent = activeTraceparent()
  if (traceparent === undefined || traceparentOf(message.headers ?? {}) !== undefined) return message
  return { ...message, headers: { ...message.headers, traceparent } }
}
