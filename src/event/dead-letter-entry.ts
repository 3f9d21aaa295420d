import type { GiveUpReason } from '../policy/index.js'
import { describeFailure, failureText } from '../telemetry/index.js'
import { type AbandonedReason, abandonedReason } from '../telemetry/internal.js'

/** A dead letter as it is written for those who read failed queues. */
export interface DeadLetterEntry {
  /** As it was delivered. */
  readonly original_event: unknown
  readonly idempotency_key: string
  readonly attempt_count: number
  /** `"Name: message"` */
  readonly last_error: string
  readonly error_type: string
  readonly abandoned_reason: AbandonedReason
  readonly service_name: string
  /** ISO, in UTC. */
  readonly timestamp: string
}

/** What is known of an event that was given up. */
export interface GivenUp {
  readonly event: unknown
  readonly key: string
  readonly service: string
  readonly attempts: number
  readonly failure: unknown
  readonly reason: GiveUpReason
  /** When, in milliseconds since the epoch. */
  readonly at: number
}

/** The entry for an event that was given up. Secrets in its error are left out. */
export function deadLetterEntry({ event, key, service, attempts, failure, reason, at }: GivenUp): DeadLetterEntry {
  return {
    original_event: event,
    idempotency_key: key,
    attempt_count: attempts,
    last_error: failureText(failure),
    error_type: describeFailure(failure).name,
    abandoned_reason: abandonedReason(reason),
    service_name: service,
    timestamp: new Date(at).toISOString(),
  }
}
