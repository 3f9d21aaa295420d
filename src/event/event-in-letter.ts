import type { Message } from '../bus/index.js'
import { exactValue, membersOf } from '../policy/internal.js'
import { decodeBody, encodeBody } from './event-body.js'

/** A body as JSON holds it: the value of a JSON text, or the raw text, or base64 if it is not UTF-8. */
export type Content = { readonly body: unknown } | { readonly rawBody: string; readonly encoding?: 'base64' }

/** The event that a message carries: the original event of a dead letter, as it was published, or else the body as it is. */
export function eventIn({ body }: Message): string | Uint8Array {
  const letter = membersIn(body)
  const event = letter?.get('original_event')
  if (event === undefined) return body
  const encoding = letter?.get('original_encoding')
  if (encoding === undefined || !event.startsWith('"')) return event
  const raw = JSON.parse(event) as string
  return decodeBody(encoding === '"base64"' ? { raw, encoding: 'base64' } : { raw })
}

function membersIn(body: Uint8Array): ReadonlyMap<string, string> | undefined {
  const encoded = encodeBody(body)
  return 'json' in encoded ? membersOf(encoded.json) : undefined
}

/** The content of a body. */
export function contentOf(bytes: Uint8Array): Content {
  const encoded = encodeBody(bytes)
  if ('json' in encoded) {
    const body = exactValue(encoded.json)
    // JSON that is too deep to be written again comes back as it is.
    return body === encoded.json ? { rawBody: encoded.json } : { body }
  }
  const { raw, encoding } = encoded
  return encoding === undefined ? { rawBody: raw } : { rawBody: raw, encoding }
}
