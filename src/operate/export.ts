import type { Bus, Message } from '../bus/index.js'
import { LetterCopies } from '../event/internal.js'
import { exactJson } from '../policy/internal.js'
import { type Clock, systemClock } from '../time/index.js'
import { findFailedQueue } from './failed-queues.js'
import { messageView } from './message-view.js'
import { type FailedQueueOptions, walkFailedQueue } from './walk.js'

/** Options for an export. */
export interface ExportOptions extends FailedQueueOptions {
  /** Default: the system clock. */
  readonly clock?: Clock
}

/**
 * Exports a failed queue as a JSON file, piece by piece, since it may not fit into memory: `queue`, `export_timestamp`,
 * `total_messages_in_queue`, `messages`, `messages_exported`, and `copies_left_out` if a dead letter was there twice. The
 * messages stay in the queue. An export that the signal
 * stopped is valid JSON too.
 *
 * ```ts
 * for await (const text of exportFailedQueue(bus, 'chunking.failed')) await file.appendFile(text)
 * ```
 */
export async function* exportFailedQueue(
  bus: Bus,
  name: string,
  { clock = systemClock, onProgress, ...range }: ExportOptions = {},
): AsyncGenerator<string> {
  const { messages } = await findFailedQueue(bus, name)
  const export_timestamp = new Date(clock.now()).toISOString()
  const head = JSON.stringify({ queue: name, export_timestamp, total_messages_in_queue: messages }, null, 2)
  yield `${head.slice(0, -'\n}'.length)},\n  "messages": [`
  const seen = new LetterCopies()
  let exported = 0
  let copies = 0
  for await (const message of walkFailedQueue(bus, name, range)) {
    if (seen.has(message)) {
      copies++
      continue
    }
    seen.add(message)
    yield `${exported === 0 ? '\n' : ',\n'}    ${exactJson(exportedMessage(message))}`
    exported++
    onProgress?.(exported)
  }
  const left = copies === 0 ? '' : `,\n  "copies_left_out": ${copies}`
  yield `\n  ],\n  "messages_exported": ${exported}${left}\n}\n`
}

/** The file keeps the spelling of the format that it comes from. */
function exportedMessage(message: Message): object {
  const view = messageView(message)
  if ('body' in view) return view
  const { rawBody: raw_body, encoding, ...rest } = view
  return { ...rest, raw_body, encoding }
}
