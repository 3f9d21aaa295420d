import type { GiveUpReason, Verdict } from '../policy/index.js'

/** The piece of work that an event is about. */
export interface Work {
  /** Which kind of work it is. */
  readonly kind: 'call' | 'event' | 'task' | 'pipeline' | 'document'
  /** Its identity, from which its jitter is derived. */
  readonly id: string
  /** What it does, in the user's words. */
  readonly name: string
  /** What it is counted under: `API_REQUEST`, say. A timeout gets the code `TIMEOUT_<CATEGORY>`. */
  readonly category?: string
  /** Whose work it is, for events alone. */
  readonly tenantId?: string
  /** What it belongs to: a request, say. For events alone. */
  readonly correlationId?: string
  /** The trace that it is part of. For events alone. */
  readonly traceId?: string
  /** The key of an event: see `eventKey`. It is for logs and dead letters; a metric with it would have no bounds. */
  readonly idempotencyKey?: string
  /** What else the caller wants to see beside it. */
  readonly context?: Readonly<Record<string, unknown>>
}

interface About {
  readonly work: Work
  /** When it happened, in milliseconds since the epoch. */
  readonly at: number
}

interface AboutAttempt extends About {
  /** The number of the attempt, from 1. */
  readonly attempt: number
  /** How many attempts the policy allows. */
  readonly maxAttempts: number
}

interface FailedAttempt extends AboutAttempt {
  readonly durationMs: number
  readonly failure: unknown
  readonly verdict: Verdict
}

/** An attempt has begun. */
export interface AttemptStarted extends AboutAttempt {
  readonly type: 'attempt_started'
  /** How many deferrals came before: after one the number of the attempt stays, but it is not the first run. */
  readonly deferrals: number
}

/** An attempt succeeded, and the work with it. */
export interface AttemptSucceeded extends AboutAttempt {
  readonly type: 'attempt_succeeded'
  readonly durationMs: number
  /**
   * Since it began to count its attempts, all waits included, whichever processes made them: for an event since its first
   * attempt, for a task since it was enqueued or last redriven. A call does not tell it.
   */
  readonly totalMs?: number
}

/** An attempt ran for too long. What follows from that is an event of its own. */
export interface TimedOut extends AboutAttempt {
  readonly type: 'timed_out'
  readonly timeoutMs: number
}

/** An attempt failed, and another follows: at the cost of an attempt, or as a deferral. */
export interface RetryScheduled extends FailedAttempt {
  readonly type: 'retry_scheduled' | 'deferred'
  readonly delayMs: number
  readonly nextAttemptAt: number
}

/**
 * The work has failed, and no attempt follows. `attempt` is the last one that was made; where none was, because the
 * caller had aborted or the breaker was open, it is 0.
 */
export interface GaveUp extends FailedAttempt {
  readonly type: 'gave_up'
  readonly reason: GiveUpReason | 'breaker_open'
}

/** The work was already done under this key, or is now on record as done. */
export interface IdempotencyUsed extends About {
  readonly type: 'idempotency_hit' | 'idempotency_recorded'
  readonly key: string
}

/** The work succeeded, but its key could not be recorded as done. The work is not run again for that. */
export interface IdempotencyNotRecorded extends About {
  readonly type: 'idempotency_not_recorded'
  readonly key: string
  readonly failure: unknown
}

/** What happens to work, as one stream. Audit, metrics, logs and traces are sinks of it. */
export type WorkEvent = AttemptEvent | IdempotencyUsed | IdempotencyNotRecorded

/** What happens to an attempt. */
export type AttemptEvent = AttemptStarted | AttemptSucceeded | TimedOut | RetryScheduled | GaveUp
