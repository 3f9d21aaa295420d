import { type Message, textOf } from '../bus/index.js'
import type { NewTask } from '../store/index.js'

/** An event that waits in a store, as the payload of its task. */
export interface StoredEvent {
  /** Its idempotency key. */
  readonly key: string
  readonly message: { readonly id: string | undefined; readonly type: string; readonly headers: Message['headers'] }
  /** As it was delivered; absent if it was no JSON. */
  readonly event?: unknown
  /** What was delivered instead of JSON. */
  readonly raw_body?: string
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
  const text = textOf(message)
  const about = `"key":${JSON.stringify(key)},"message":${JSON.stringify({ id, type, headers })}`
  // The event is kept as it came, to the byte, not as it would be written again.
  const content = isJson(text) ? `"event":${text}` : `"raw_body":${JSON.stringify(text)}`
  return { id: taskId, kind: eventKind(queue), payload: `{${about},${content}}` }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
