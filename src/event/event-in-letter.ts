import type { Message } from '../bus/index.js'

/** A body as JSON holds it: the value of a JSON text, or the raw text, or base64 if it is not UTF-8. */
export type Content = { readonly body: unknown } | { readonly rawBody: string; readonly encoding?: 'base64' }

/** The event that a message carries: the original event of a dead letter, or else the body as it is. */
export function eventIn({ body }: Message): string | Uint8Array {
  const content = contentOf(body)
  if (!('body' in content)) return body
  const letter = content.body
  if (typeof letter !== 'object' || letter === null || !('original_event' in letter)) return body
  const { original_event: event } = letter
  const encoding = 'original_encoding' in letter ? letter.original_encoding : undefined
  if (encoding === undefined || typeof event !== 'string') return eventTextIn(letter, body)
  return encoding === 'base64' ? Buffer.from(event, encoding) : event
}

/** The JSON of the event, cut out of the letter: written again, a number that JavaScript rounds would be another number. */
function eventTextIn(letter: { readonly original_event: unknown }, body: Uint8Array): string {
  const text = Buffer.from(body).toString()
  const { original_event: event, ...others } = letter
  const [head, tail] = ['{"original_event":', `,${JSON.stringify(others).slice(1)}`]
  return text.startsWith(head) && text.endsWith(tail) ? text.slice(head.length, -tail.length) : JSON.stringify(event)
}

/** The content of a body. */
export function contentOf(bytes: Uint8Array): Content {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return { rawBody: Buffer.from(bytes).toString('base64'), encoding: 'base64' }
  }
  try {
    const body: unknown = JSON.parse(text)
    // Throws if the value is too deep to be written again.
    JSON.stringify(body)
    return { body }
  } catch {
    return { rawBody: text }
  }
}
