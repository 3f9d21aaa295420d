import type { MessageView } from '../../../operate/index.js'
import { exactJson, membersOf } from '../../../policy/internal.js'
import { redact } from '../../../telemetry/index.js'
import type { Console } from '../../terminal/console.js'
import { oneLine, table } from '../../terminal/table.js'
import { relative } from '../../terminal/times.js'
import { visible } from '../../terminal/visible.js'

/** The least width of the column of ids: most producers give their messages UUIDs. */
const UUID_WIDTH = 36

/** Messages of a failed queue as a table: a row for each, with its error and its event below. */
export function messageTable(messages: readonly MessageView[], { width, paint }: Console, now: number): string {
  const columns = [{ title: '#' }, { title: 'ID', minWidth: UUID_WIDTH }, { title: 'REASON' }, { title: 'DIED' }]
  const rows = messages.map((message, index) => {
    const { last_error, attempt_count, abandoned_reason, timestamp } = letterIn(message)
    const diedAt = typeof timestamp === 'string' ? Date.parse(timestamp) : NaN
    const count = attempt_count === 1 ? '1 attempt: ' : `${textOf(attempt_count)} attempts: `
    const error = last_error === undefined ? [] : [`${attempt_count === undefined ? '' : count}${textOf(last_error)}`]
    return {
      cells: [
        String(index + 1),
        message.id ?? '',
        typeof abandoned_reason === 'string' ? abandoned_reason : '',
        Number.isNaN(diedAt) ? '' : relative(diedAt, now),
      ],
      paints: [undefined, undefined, paint.red],
      // For people, without secrets; `--output json` has all of it.
      details: [...error, eventText(message)].map(text => oneLine(redact(visible(text)), { width, indent: '   ' })),
    }
  })
  return table(columns, rows, { width, paint })
}

/** The fields of a body that is a JSON object. They may hold anything: anybody can put a message there. */
function letterIn(message: MessageView): Readonly<Record<string, unknown>> {
  const isObject = 'body' in message && typeof message.body === 'object' && message.body !== null
  return isObject ? { ...message.body } : {}
}

/** A field as text. An object may have a `toString` that is none. */
function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function eventText(message: MessageView): string {
  if ('body' in message) {
    const body = exactJson(message.body)
    return membersOf(body)?.get('original_event') ?? body
  }
  if (message.encoding === undefined) return message.rawBody
  return `${Buffer.from(message.rawBody, 'base64').length} bytes that are not text`
}
