import type { Message, NewMessage } from './bus.js'

const UTF8 = new TextDecoder()

/** The body of a message as text. */
export function textOf({ body }: Pick<Message, 'body'>): string {
  return UTF8.decode(body)
}

/** The body of a new message as bytes. */
export function bytesOf({ body }: NewMessage): Uint8Array {
  return typeof body === 'string' ? new TextEncoder().encode(body) : body
}
