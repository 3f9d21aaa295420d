import type { UnreadableHeaders } from '../bus/internal.js'
import type { GiveUpReason } from '../policy/index.js'
import { describeFailure, failureText } from '../telemetry/index.js'
import { type AbandonedReason, abandonedReason } from '../telemetry/internal.js'

/** A dead letter in a failed queue. */
export interface DeadLetterEntry {
  /** The event as it was delivered. */
  readonly original_event: unknown
  /** Present if the body was not JSON: `original_event` is then its text, or base64 if it was not text either. */
  readonly original_encoding?: 'text' | 'base64'
  /** Present if its headers could not be read: all of them as they came. */
  readonly original_headers?: UnreadableHeaders
  /**
   * The same in every copy of this letter: the queue and the id of the event. Present if `consume` wrote it, which after
   * a crash may write it again.
   */
  readonly dead_letter_id?: string
  /** The key of the event. */
  readonly idempotency_key: string
  /** How many attempts were made. */
  readonly attempt_count: number
  /** `"Name: message"` */
  readonly last_error: string
  /** The name of the last error. */
  readonly error_type: string
  /** Why it was given up. */
  readonly abandoned_reason: AbandonedReason
  /** The service that gave it up. */
  readonly service_name: string
  /** ISO, in UTC. */
  readonly timestamp: string
}

/** An event that was given up. */
export interface GivenUp {
  readonly event: unknown
  /** Absent if the event is JSON. */
  readonly encoding?: DeadLetterEntry['original_encoding']
  readonly headers?: DeadLetterEntry['original_headers'] | undefined
  /** Absent if the letter has no id. */
  readonly id?: string
  readonly key: string
  readonly service: string
  readonly attempts: number
  readonly failure: unknown
  readonly reason: GiveUpReason
  /** When, in milliseconds since the epoch. */
  readonly at: number
}

/** The dead letter of an event that was given up. Its error is redacted. */
export function deadLetterEntry(givenUp: GivenUp): DeadLetterEntry {
  const { event, encoding, headers, id, key, service, attempts, failure, reason, at } = givenUp
  return {
    original_event: event,
    ...(encoding !== undefined && { original_encoding: encoding }),
    ...(headers !== undefined && { original_headers: headers }),
    ...(id !== undefined && { dead_letter_id: id }),
    idempotency_key: key,
    attempt_count: attempts,
    last_error: failureText(failure),
    error_type: describeFailure(failure).name,
    abandoned_reason: abandonedReason(reason),
    service_name: service,
    timestamp: new Date(at).toISOString(),
  }
}

/** A dead letter as JSON. The event in it is the text that was published, not as JavaScript would write it again. */
export function letterText(letter: DeadLetterEntry, body: string | Uint8Array): string {
  if (letter.original_encoding !== undefined || typeof body !== 'string') return JSON.stringify(letter)
  const { original_event: _, ...others } = letter
  return `{"original_event":${body},${JSON.stringify(others).slice(1)}`
}
