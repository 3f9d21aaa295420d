import type { Message } from '../bus/index.js'
import { EVENT_KIND } from '../engine/internal.js'
import { membersOf } from '../policy/internal.js'
import type { NewTask } from '../store/index.js'
import { traceparentOf } from '../telemetry/internal.js'
import { decodeBody, encodeBody } from './event-body.js'

/** An event that waits in a store, as the payload of its task. */
export interface StoredEvent {
  /** Its idempotency key. */
  readonly key: string
  readonly message: Omit<Message, 'body'>
  /** The event as it was delivered; absent if it was not JSON. */
  readonly event?: unknown
  /** A body that is not JSON: its text, or base64 where `encoding` says so. */
  readonly raw_body?: string
  readonly encoding?: 'base64'
}

/** The task of an event. */
export type EventTask = NewTask & { readonly id: string }

/** The event that a task's payload holds. */
export function storedEvent(payload: string): StoredEvent {
  return JSON.parse(payload) as StoredEvent
}

/** The kind of the tasks in which the events of a queue wait. */
export function eventKind(queue: string): string {
  return `${EVENT_KIND}${queue}`
}

/** The task in which an event waits. */
export function eventTask(taskId: string, queue: string, message: Message, key: string): EventTask {
  const payload = `{${headOf({ key, message })},${contentOf(message)}}`
  return { id: taskId, kind: eventKind(queue), payload, traceparent: traceparentOf(message.headers) }
}

/** The body of an event that waits, as it was published: the same text, or the same bytes. */
export function bodyOf(payload: string): string | Uint8Array {
  const stored = storedEvent(payload)
  // Cut out of the payload: written again, a number that JavaScript rounds would be another number.
  if ('event' in stored) return decodeBody({ json: membersOf(payload)?.get('event') ?? '' })
  return decodeBody({ raw: stored.raw_body ?? '', encoding: stored.encoding })
}

/** The fields of a stored event before its body. */
function headOf({ key, message }: Pick<StoredEvent, 'key' | 'message'>): string {
  const { id, type, headers, unreadable } = message
  return `"key":${JSON.stringify(key)},"message":${JSON.stringify({ id, type, headers, unreadable })}`
}

/** The fields of a stored event that hold the body. */
function contentOf({ body }: Message): string {
  const encoded = encodeBody(body)
  if ('json' in encoded) return `"event":${encoded.json}`
  const { raw, encoding } = encoded
  return `"raw_body":${JSON.stringify(raw)}${encoding === undefined ? '' : `,"encoding":"${encoding}"`}`
}
