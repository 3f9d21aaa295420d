import { randomUUID } from 'node:crypto'
import type { NewMessage } from '../bus/index.js'
import type { Collection } from './collection.js'
import type { DocumentRecord, NewValues } from './source.js'

/** The version of the envelope around a document's event. */
const ENVELOPE_VERSION = '1.0'

/** A document that was dispatched this often without a start is left alone: its service does not call `begin`. */
export const MAX_DISPATCHES = 10

/** The headers that carry the stamp of a dispatch, so that the event itself keeps its fields. */
export const STAMP = {
  collection: 'document-collection',
  id: 'document-id',
  attempt: 'document-attempt',
  generation: 'document-generation',
} as const

/** New values that a document has as well: none of them is null. */
type Dispatched = Partial<
  Pick<DocumentRecord, 'attemptCount' | 'generation' | 'dispatches'> & { lastAttemptAt: number; retryAt: number }
>

/** The tracking fields of a document that is dispatched. */
export function dispatched(collection: Collection, document: DocumentRecord, now: number): Dispatched {
  if (!collection.countsAtBegin) return { attemptCount: document.attemptCount + 1, lastAttemptAt: now }
  return {
    generation: document.generation + 1,
    retryAt: now + collection.startWithinMs,
    dispatches: document.dispatches + 1,
  }
}

/** The tracking fields after a dispatch whose event could not be published: it costs no attempt. */
export function undispatched(collection: Collection, before: DocumentRecord, now: number): NewValues {
  if (collection.countsAtBegin) return { retryAt: now, dispatches: before.dispatches }
  return { attemptCount: before.attemptCount, lastAttemptAt: before.lastAttemptAt ?? null }
}

/** Whether a failed publish may have reached the broker: the event may be in the queue, so its attempt stays counted. */
export function mayBeSent(failure: unknown): boolean {
  return failure instanceof Error && 'code' in failure && failure.code === 'publish_unconfirmed'
}

/** The event of a dispatched document, with its stamp and its content type in the headers. */
export function eventOf(collection: Collection, document: DocumentRecord, now: number): NewMessage {
  const { event, name, countsAtBegin } = collection
  const id = randomUUID()
  const envelope = {
    event_type: event.name ?? event.type,
    event_id: id,
    timestamp: new Date(now).toISOString(),
    version: ENVELOPE_VERSION,
    data: event.data(document),
  }
  const stamp: Record<string, string> = {
    'content-type': 'application/json',
    [STAMP.collection]: encodeURIComponent(name),
    [STAMP.id]: encodeURIComponent(document.id),
  }
  if (countsAtBegin) stamp[STAMP.generation] = String(document.generation)
  else stamp[STAMP.attempt] = String(document.attemptCount)
  return { id, type: event.type, body: JSON.stringify(envelope), headers: stamp }
}
