import { type Message, textOf } from '../bus/index.js'
import type { NewTask } from '../store/index.js'

/** An event that waits in a store, as the payload of its task. */
export interface StoredEvent {
  /** Its idempotency key. */
  readonly key: string
  readonly message: { readonly id: string | undefined; readonly type: string; readonly headers: Message['headers'] }
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
  return `event:${queue}`
}

/** The task in which an event waits. */
export function eventTask(taskId: string, queue: string, message: Message, key: string): EventTask {
  const { id, type, headers } = message
  const about = `"key":${JSON.stringify(key)},"message":${JSON.stringify({ id, type, headers })}`
  return { id: taskId, kind: eventKind(queue), payload: `{${about},${contentOf(message)}}` }
}

/** The body of a message that waits, as it was published: to the byte, however it was written. */
export function bodyOf(stored: StoredEvent): string | Uint8Array {
  if ('event' in stored) return JSON.stringify(stored.event)
  const { raw_body = '', encoding } = stored
  return encoding === undefined ? raw_body : Buffer.from(raw_body, encoding)
}

/** The fields of a stored event that hold the body. JSON is kept as it came, not as it would be written again. */
function contentOf(message: Message): string {
  let text: string
  try {
    text = textOf(message)
  } catch {
    return `"raw_body":"${Buffer.from(message.body).toString('base64')}","encoding":"base64"`
  }
  try {
    JSON.parse(text)
    return `"event":${text}`
  } catch {
    return `"raw_body":${JSON.stringify(text)}`
  }
}
