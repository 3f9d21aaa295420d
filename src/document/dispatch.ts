import { randomUUID } from 'node:crypto'
import type { NewMessage } from '../bus/index.js'
import { exactJson } from '../policy/internal.js'
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

/**
 * How a dispatch is undone whose event could not be published; `undefined` if it stays. It is undone only where a service
 * counts the attempt as it begins, so that the document is due at once. Where the requeue counts, the attempt is spent, as
 * it is if the sweeper dies before the publish. An event without a confirmation may be in the queue, so it stays as well.
 */
export function undispatched(
  collection: Collection,
  before: DocumentRecord,
  failure: unknown,
  now: number,
): NewValues | undefined {
  const mayBeSent = failure instanceof Error && 'code' in failure && failure.code === 'publish_unconfirmed'
  return collection.countsAtBegin && !mayBeSent ? { retryAt: now, dispatches: before.dispatches } : undefined
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
  return { id, type: event.type, body: exactJson(envelope), headers: stamp }
}
