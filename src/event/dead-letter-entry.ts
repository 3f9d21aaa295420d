import type { GiveUpReason } from '../policy/index.js'
import { describeFailure, failureText } from '../telemetry/index.js'

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

/** Why an event was given up. */
export type AbandonedReason =
  | 'max_attempts_exceeded'
  | 'ttl_exceeded'
  | 'non_retryable_error'
  | Exclude<GiveUpReason, 'attempts_exhausted' | 'ttl_expired' | 'final_error'>

/** The reason of the kernel's, in the words of dead letters. */
export function abandonedReason(reason: GiveUpReason): AbandonedReason {
  switch (reason) {
    case 'attempts_exhausted':
      return 'max_attempts_exceeded'
    case 'ttl_expired':
      return 'ttl_exceeded'
    case 'final_error':
      return 'non_retryable_error'
    default:
      return reason
  }
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
