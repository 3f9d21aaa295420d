import type { Message } from '../bus/index.js'
import { exactValue, membersOf } from '../policy/internal.js'

/** A body as JSON holds it: the value of a JSON text, or the raw text, or base64 if it is not UTF-8. */
export type Content = { readonly body: unknown } | { readonly rawBody: string; readonly encoding?: 'base64' }

/** The event that a message carries: the original event of a dead letter, as it was published, or else the body as it is. */
export function eventIn({ body }: Message): string | Uint8Array {
  const letter = membersIn(body)
  const event = letter?.get('original_event')
  if (event === undefined) return body
  const encoding = letter?.get('original_encoding')
  if (encoding === undefined || !event.startsWith('"')) return event
  const text = JSON.parse(event) as string
  return encoding === '"base64"' ? Buffer.from(text, 'base64') : text
}

function membersIn(body: Uint8Array): ReadonlyMap<string, string> | undefined {
  try {
    const text = textIn(body)
    JSON.parse(text)
    return membersOf(text)
  } catch {
    return undefined
  }
}

/** The text of a body. Throws if it is not UTF-8. */
function textIn(body: Uint8Array): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body)
}

/** The content of a body. */
export function contentOf(bytes: Uint8Array): Content {
  let text: string
  try {
    text = textIn(bytes)
  } catch {
    return { rawBody: Buffer.from(bytes).toString('base64'), encoding: 'base64' }
  }
  const body = exactValue(text)
  // Text that is not JSON, or is too deep to be written again, comes back as it is.
  return body === text ? { rawBody: text } : { body }
}
