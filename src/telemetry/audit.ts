import { describeFailure } from './describe-failure.js'
import { label, redact } from './redact.js'
import { type Json, redactContext } from './redact-context.js'
import type { GaveUp, IdempotencyUsed, RetryScheduled, TimedOut, Work, WorkEvent } from './work-events.js'

/** What every audit record has. What the caller did not give is `null`, so that the shape is always the same. */
interface AboutWork {
  /** `RETRY_<CATEGORY>`, or `RETRY_DEFAULT` for work without a category. */
  readonly retry_category: string
  readonly operation: string
  readonly tenant_id: string | null
  readonly correlation_id: string | null
  readonly trace_id: string | null
  readonly additional_context: Json
  /** ISO 8601, in UTC. */
  readonly timestamp: string
}

/** An attempt failed and another follows. `attempt_number` is the one that failed. */
export interface RetryAttemptRecord extends AboutWork {
  readonly event_type: 'retry_attempt'
  readonly attempt_number: number
  readonly max_attempts: number
  readonly delay_seconds: number
  readonly exception_type: string
  readonly exception_message: string
}

/** The work was retried as far as its policy allows, and failed. */
export interface RetryExhaustedRecord extends AboutWork {
  readonly event_type: 'retry_exhausted'
  readonly total_attempts: number
  readonly final_exception_type: string
  readonly final_exception_message: string
}

/** A result was found under a key (`hit`), or put there (`record`). */
export interface IdempotencyRecord extends AboutWork {
  readonly event_type: 'idempotency'
  readonly idempotency_key: string
  readonly action: 'hit' | 'record'
}

/** An attempt ran for too long. */
export interface TimeoutRecord extends AboutWork {
  readonly event_type: 'timeout_occurred'
  /** `TIMEOUT_<CATEGORY>`, or `TIMEOUT_DEFAULT` for work without a category. */
  readonly timeout_code: string
  readonly attempt_number: number
  readonly timeout_seconds: number
}

/** What the audit keeps of what happened to work. */
export type AuditRecord = RetryAttemptRecord | RetryExhaustedRecord | IdempotencyRecord | TimeoutRecord

/** Work ends for other reasons too, but then not because its retries were used up. */
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

/** The audit record of an event, or `undefined` for an event that the audit does not keep. */
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
