import { describeFailure } from './describe-failure.js'
import { label, redact } from './redact.js'
import { type Json, redactContext } from './redact-context.js'
import type { GaveUp, IdempotencyUsed, RetryScheduled, TimedOut, Work, WorkEvent } from './work-events.js'

/** The fields of every audit record. A field that the caller did not give is `null`, so that the shape never varies. */
interface AboutWork {
  /** `RETRY_<CATEGORY>`, or `RETRY_DEFAULT` for work without a category. */
  readonly retry_category: string
  /** The name of the work. */
  readonly operation: string
  /** The tenant that it is done for. */
  readonly tenant_id: string | null
  /** The request, or anything else, that it belongs to. */
  readonly correlation_id: string | null
  /** The trace that it is part of. */
  readonly trace_id: string | null
  /** The `context` of the work, bounded and redacted. */
  readonly additional_context: Json
  /** ISO 8601, in UTC. */
  readonly timestamp: string
}

/** Recorded when an attempt failed and another follows. `attempt_number` is the failed one. */
export interface RetryAttemptRecord extends AboutWork {
  readonly event_type: 'retry_attempt'
  /** The number of the attempt that failed. */
  readonly attempt_number: number
  /** The attempts that the policy allows. */
  readonly max_attempts: number
  /** The delay until the next attempt. */
  readonly delay_seconds: number
  /** The name of the error. */
  readonly exception_type: string
  /** Its message, bounded and redacted. */
  readonly exception_message: string
}

/** Recorded when the work failed after all the retries that its policy allows. */
export interface RetryExhaustedRecord extends AboutWork {
  readonly event_type: 'retry_exhausted'
  /** How many attempts were made. */
  readonly total_attempts: number
  /** The name of the last error. */
  readonly final_exception_type: string
  /** Its message, bounded and redacted. */
  readonly final_exception_message: string
}

/** Recorded when a result was found under an idempotency key (`hit`) or stored there (`record`). */
export interface IdempotencyRecord extends AboutWork {
  readonly event_type: 'idempotency'
  /** The key. */
  readonly idempotency_key: string
  /** Whether a result was found under the key, or stored there. */
  readonly action: 'hit' | 'record'
}

/** Recorded when an attempt exceeded its timeout. */
export interface TimeoutRecord extends AboutWork {
  readonly event_type: 'timeout_occurred'
  /** `TIMEOUT_<CATEGORY>`, or `TIMEOUT_DEFAULT` for work without a category. */
  readonly timeout_code: string
  /** The number of the attempt that ran for too long. */
  readonly attempt_number: number
  /** How long it was allowed to run. */
  readonly timeout_seconds: number
}

/** A record of the audit. */
export type AuditRecord = RetryAttemptRecord | RetryExhaustedRecord | IdempotencyRecord | TimeoutRecord

/** Whether each reason means that retries were used up. Work also ends for other reasons. */
const IS_EXHAUSTED: Readonly<Record<GaveUp['reason'], boolean>> = {
  attempts_exhausted: true,
  losses_exhausted: true,
  ttl_expired: true,
  deadline_passed: true,
  budget_empty: true,
  final_error: false,
  aborted: false,
  breaker_open: false,
}

/** Returns the audit record of a work event, or `undefined` if the audit does not keep such events. */
export function auditRecord(event: WorkEvent): AuditRecord | undefined {
  switch (event.type) {
    case 'retry_scheduled':
    case 'deferred':
      return retryAttempt(event)
    case 'gave_up':
      return IS_EXHAUSTED[event.reason] ? retryExhausted(event) : undefined
    case 'idempotency_hit':
    case 'idempotency_recorded':
      return idempotency(event)
    case 'timed_out':
      return timeoutOccurred(event)
    default:
      return undefined
  }
}

function retryAttempt(event: RetryScheduled): RetryAttemptRecord {
  const { name, message } = describeFailure(event.failure)
  return {
    event_type: 'retry_attempt',
    ...naming(event.work),
    attempt_number: event.attempt,
    max_attempts: event.maxAttempts,
    delay_seconds: event.delayMs / 1000,
    exception_type: name,
    exception_message: message,
    ...circumstances(event),
  }
}

function retryExhausted(event: GaveUp): RetryExhaustedRecord {
  const { name, message } = describeFailure(event.failure)
  return {
    event_type: 'retry_exhausted',
    ...naming(event.work),
    total_attempts: event.attempt,
    final_exception_type: name,
    final_exception_message: message,
    ...circumstances(event),
  }
}

function idempotency(event: IdempotencyUsed): IdempotencyRecord {
  return {
    event_type: 'idempotency',
    ...naming(event.work),
    idempotency_key: label(event.key, 255),
    action: event.type === 'idempotency_hit' ? 'hit' : 'record',
    ...circumstances(event),
  }
}

function timeoutOccurred(event: TimedOut): TimeoutRecord {
  return {
    event_type: 'timeout_occurred',
    ...naming(event.work),
    timeout_code: `TIMEOUT_${label(event.work.category ?? 'DEFAULT')}`,
    attempt_number: event.attempt,
    timeout_seconds: event.timeoutMs / 1000,
    ...circumstances(event),
  }
}

function naming({ category = 'DEFAULT', name }: Work) {
  return { retry_category: `RETRY_${label(category)}`, operation: redact(name) }
}

function circumstances({ work, at }: WorkEvent) {
  return {
    tenant_id: labelOrNull(work.tenantId),
    correlation_id: labelOrNull(work.correlationId),
    trace_id: labelOrNull(work.traceId),
    additional_context: redactContext(work.context),
    timestamp: new Date(at).toISOString(),
  }
}

function labelOrNull(text: string | undefined): string | null {
  return text === undefined ? null : label(text)
}
