import { isObject } from '../../policy/internal.js'

/**
 * Payloads that Redrive makes itself, around the data of users: a patch that is meant for the data must not miss it. They are
 * told by their kind and their fields, since a task of a user may have any kind.
 */

/** Begins the kind of events that wait in a store. */
export const EVENT_KIND = 'event:'
/** Begins the kind of letters that refer to a document. */
export const DOCUMENT_KIND = 'document:'

/** Checks a change to a payload that Redrive made, both as JSON. Returns the problem, or `undefined`. */
export function madePayloadProblem(kind: string, before: string, after: string): string | undefined {
  if (before === after) return undefined
  if (kind.startsWith(DOCUMENT_KIND) && isReference(parsed(before)))
    return 'it only refers to a document: edit the document'
  const event = kind.startsWith(EVENT_KIND) ? parsed(before) : undefined
  return isStoredEvent(event) ? eventProblem(event, parsed(after)) : undefined
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

/** An event keeps its fields: with another, or without one, its body would be read as something else. */
function eventProblem(before: StoredEvent, after: unknown): string | undefined {
  const body = 'event' in before ? 'event' : 'raw_body'
  const other = isObject(after) && Object.keys(after).find(field => !(field in before))
  if (other) return `it is an event, with its data in '${body}': '${other}' would have no effect beside it`
  if (!isStoredEvent(after)) return `it is an event, and needs its 'key', its 'message' and its '${body}'`
  return before.encoding === after.encoding ? undefined : "it is an event, and 'encoding' says how its body was stored"
}

interface StoredEvent {
  readonly key: string
  readonly message: object
  readonly encoding?: unknown
}

function isStoredEvent(value: unknown): value is StoredEvent {
  if (!isObject(value)) return false
  const { key, message, raw_body: text } = value
  const hasBody = 'event' in value ? text === undefined : typeof text === 'string'
  return typeof key === 'string' && isObject(message) && typeof message.type === 'string' && hasBody
}

function isReference(value: unknown): boolean {
  return isObject(value) && typeof value.collection === 'string' && value.id !== undefined
}
