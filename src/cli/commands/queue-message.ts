import type { Message } from '../../bus/index.js'
import type { Console } from '../terminal/console.js'
import { oneLine, table } from '../terminal/table.js'
import { relative } from '../terminal/times.js'

/** A message as JSON. A body that is no JSON is kept as text, and one that is no text as base64. */
export function messageJson({ id, type, headers, body }: Message): object {
  return { id: id ?? null, type, headers, ...contentOf(body) }
}

/** The event that a message tells of: the original event of a dead letter, else its body as it is. */
export function eventIn({ body }: Message): string | Uint8Array {
  const letter = letterIn(body)
  return letter !== undefined && 'original_event' in letter ? JSON.stringify(letter.original_event) : body
}

/** Messages as a table: a row for each, with its error and its event below. */
export function messageTable(messages: readonly Message[], { width, paint }: Console, now: number): string {
  const columns = [{ title: '#' }, { title: 'ID', mayShrink: true }, { title: 'REASON' }, { title: 'DIED' }]
  const rows = messages.map((message, index) => {
    const { last_error, attempt_count, abandoned_reason, timestamp } = letterIn(message.body) ?? {}
    const diedAt = typeof timestamp === 'string' ? Date.parse(timestamp) : NaN
    const count = attempt_count === 1 ? '1 attempt' : `${attempt_count} attempts`
    const error = last_error === undefined ? [] : [`${attempt_count === undefined ? '' : `${count}: `}${last_error}`]
    return {
      cells: [
        String(index + 1),
        message.id ?? '',
        typeof abandoned_reason === 'string' ? abandoned_reason : '',
        Number.isNaN(diedAt) ? '' : relative(diedAt, now),
      ],
      paints: [undefined, undefined, paint.red],
      details: [...error, eventText(message)].map(text => oneLine(text, { width, indent: '   ' })),
    }
  })
  return table(columns, rows, { width, paint })
}

type Content = { readonly body: unknown } | { readonly raw_body: string; readonly encoding?: 'base64' }

function contentOf(bytes: Uint8Array): Content {
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return { raw_body: Buffer.from(bytes).toString('base64'), encoding: 'base64' }
  }
  try {
    const body: unknown = JSON.parse(text)
    // Fails if it is too deep to be written again.
    JSON.stringify(body)
    return { body }
  } catch {
    return { raw_body: text }
  }
}

/** The fields of a body that is a JSON object. Whatever they hold: anybody may have written it. */
function letterIn(bytes: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  const content = contentOf(bytes)
  const isObject = 'body' in content && typeof content.body === 'object' && content.body !== null
  return isObject ? { ...content.body } : undefined
}

function eventText(message: Message): string {
  const event = eventIn(message)
  if (typeof event === 'string') return event
  const content = contentOf(event)
  if ('body' in content) return JSON.stringify(content.body)
  return content.encoding === undefined ? content.raw_body : `${event.length} bytes that are no text`
}
