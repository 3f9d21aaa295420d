import type { GiveUpReason, Verdict } from '../policy/index.js'

/** The piece of work that a work event is about. */
export interface Work {
  /** The kind of work. */
  readonly kind: 'call' | 'event' | 'task' | 'step' | 'item' | 'run' | 'document' | 'schedule' | 'worker'
  /** Its identity, from which its jitter is derived. */
  readonly id: string
  /** Its name, in the user's words. */
  readonly name: string
  /** The category that it is counted under, such as `API_REQUEST`. A timeout gets the code `TIMEOUT_<CATEGORY>`. */
  readonly category?: string
  /** The queue of an event; absent if `handleEvent` was called without one. */
  readonly queue?: string
  /** The pipeline of an item. */
  readonly pipeline?: string
  /** The run of an item. */
  readonly run?: string
  /** The stage that an item is in. */
  readonly stage?: string
  /** The name of a step of a task. */
  readonly step?: string
  /** The tenant that it is done for. Only reported. */
  readonly tenantId?: string
  /** The request, or anything else, that it belongs to. Only reported. */
  readonly correlationId?: string
  /** The trace that it is part of. Only reported. */
  readonly traceId?: string
  /** The key of an event: see `eventKey`. For logs and dead letters; as a metric label it would be unbounded. */
  readonly idempotencyKey?: string
  /** Anything else that the caller wants to see with it. */
  readonly context?: Readonly<Record<string, unknown>>
}

interface About {
  /** The work that it is about. */
  readonly work: Work
  /** The time of the work event, in milliseconds since the epoch. */
  readonly at: number
}

interface AboutAttempt extends About {
  /** The number of the attempt, from 1. */
  readonly attempt: number
  /** The attempts that the policy allows. */
  readonly maxAttempts: number
}

interface FailedAttempt extends AboutAttempt {
  /** How long the attempt took. */
  readonly durationMs: number
  /** The value that was thrown. Not redacted. */
  readonly failure: unknown
  /** The classifier's verdict on it. */
  readonly verdict: Verdict
}

/** An attempt has begun. */
export interface AttemptStarted extends AboutAttempt {
  readonly type: 'attempt_started'
  /** The deferrals before it. A deferral does not change the attempt's number, so attempt 1 may not be the first run. */
  readonly deferrals: number
}

/** An attempt succeeded, and the work with it. */
export interface AttemptSucceeded extends AboutAttempt {
  readonly type: 'attempt_succeeded'
  /** How long the attempt took. */
  readonly durationMs: number
  /**
   * The time since the work began, all waits included, over all processes: for an event since its first attempt, for a task
   * since it was enqueued or last redriven. Calls do not report it.
   */
  readonly totalMs?: number
}

/** An attempt succeeded with a result that could not be kept: JSON cannot hold it, or it is too long. Told after the success. */
export interface ResultNotKept extends AboutAttempt {
  readonly type: 'result_not_kept'
  /** Why it could not be kept. */
  readonly reason: string
}

/** An attempt found nothing to do, and the work ended without failure. */
export interface Skipped extends AboutAttempt {
  readonly type: 'skipped'
  /** How long the attempt took. */
  readonly durationMs: number
  /** Why there was nothing to do. */
  readonly reason: string
}

/** An attempt ran for too long. The decision that follows is a work event of its own. */
export interface TimedOut extends AboutAttempt {
  readonly type: 'timed_out'
  /** How long it was allowed to run. */
  readonly timeoutMs: number
}

/** Why a handler was told to end. */
export type OverrunReason = 'timeout' | 'cancelled' | 'lease_lost'

/**
 * A handler goes on although its signal has aborted, and keeps its slot: `overrun_began`. It has ended: `overrun_ended`. Or
 * it was left to itself after a minute, or after its timeout if that is shorter, and its slot was freed: `abandoned`.
 */
export interface Overran extends AboutAttempt {
  /** Whether it began, ended, or was given up. */
  readonly type: 'overrun_began' | 'overrun_ended' | 'abandoned'
  /** Why its signal aborted. */
  readonly reason: OverrunReason
  /** How long it has gone on since. */
  readonly durationMs: number
}

/** An attempt failed, and another follows: at the cost of an attempt, or as a deferral. */
export interface RetryScheduled extends FailedAttempt {
  /** Whether the retry costs an attempt or is a deferral. */
  readonly type: 'retry_scheduled' | 'deferred'
  /** The delay until the next attempt. */
  readonly delayMs: number
  /** When that starts, in milliseconds since the epoch. */
  readonly nextAttemptAt: number
}

/**
 * The work has failed, and no attempt follows. `attempt` is the last one made, or 0 if none was, because the caller had
 * aborted or the breaker was open.
 */
export interface GaveUp extends FailedAttempt {
  readonly type: 'gave_up'
  /** The stop rule that ended it, or `breaker_open`. */
  readonly reason: GiveUpReason | 'breaker_open'
}

/** The work was already done under this key, or is now on record as done. */
export interface IdempotencyUsed extends About {
  /** Whether the result was found under the key, or stored there. */
  readonly type: 'idempotency_hit' | 'idempotency_recorded'
  /** The key. */
  readonly key: string
}

/** The work succeeded, but its key could not be recorded as done. The work does not run again because of that. */
export interface IdempotencyNotRecorded extends About {
  readonly type: 'idempotency_not_recorded'
  /** The key. */
  readonly key: string
  /** Why the store refused. */
  readonly failure: unknown
}

/** A stuck document was requeued: the event that makes a service work on it was published again. */
export interface Swept extends About {
  readonly type: 'swept'
  /** The number of the attempt that it was requeued for, from 1. */
  readonly attempt: number
  /** The attempts that the policy allows. */
  readonly maxAttempts: number
}

/** An event for a document was acknowledged without work: a later dispatch has replaced it, or it had begun before. */
export interface Superseded extends About {
  readonly type: 'superseded'
}

/** The counts of one collection in one sweep. */
export interface CollectionReport {
  /** The name of the collection. */
  readonly collection: string
  /** Stuck documents before the sweep, those in backoff included. */
  readonly stuck: number
  /** Documents that are marked as failed, after the sweep. */
  readonly failed: number
  /** The age of the oldest stuck document: since its creation, or since its last attempt where that is not known. */
  readonly oldestAgeMs?: number | undefined
  /** Documents whose event was published again. */
  readonly requeued: number
  /** Left alone because their backoff is not over. */
  readonly skipped: number
  /** Marked as failed by this sweep. */
  readonly exhausted: number
  /** Somebody else changed or deleted them between the query and the update. */
  readonly missed: number
  /** Dispatched ten times without a start: left alone, since the service does not call `begin`. */
  readonly unstarted: number
  /** Moved to the archive. */
  readonly archived: number
  /** Documents whose event could not be published. */
  readonly publishErrors: number
  /** The first of them. */
  readonly publishError?: unknown
  /** Documents whose fields cannot be read or written, or of which no event can be made. */
  readonly documentErrors: number
  /** The first of them. */
  readonly documentError?: unknown
  /** Why the sweep left the whole collection alone. */
  readonly postponed?: 'lane' | 'unhealthy' | undefined
  /** More of the collection is stuck than expected. `isHeldBack` if the sweep sent a first part only. */
  readonly tooMany?: { readonly total: number; readonly isHeldBack: boolean } | undefined
  /** Why the sweep of this collection failed. The counts are those up to then. */
  readonly failure?: unknown
}

/** The sweep of one collection has ended. */
export interface CollectionSwept extends About {
  readonly type: 'collection_swept'
  /** Its counts. */
  readonly report: CollectionReport
  /** Whether the sweep only counted. */
  readonly isDryRun: boolean
}

/** A sweep over all collections has ended; with a failure if the source or the bus could not be reached. */
export interface SweepEnded extends About {
  readonly type: 'sweep_ended'
  /** How long it took. */
  readonly durationMs: number
  /** Whether it only counted. */
  readonly isDryRun: boolean
  /** Why it failed as a whole. */
  readonly failure?: unknown
}

/** Documents that should have a derived document have none. */
export interface CoverageChecked extends About {
  readonly type: 'coverage_checked'
  /** The collection that was checked. */
  readonly from: string
  /** The collection that should have a derived document for each. */
  readonly unless: string
  /** How many documents have none. */
  readonly missing: number
  /** How many of them were opened again. */
  readonly reopened: number
  /** Why the check failed. */
  readonly failure?: unknown
}

/** A process has begun to work on a run of a pipeline that it started or resumed. */
export interface RunStarted extends About {
  readonly type: 'run_started'
  /** Whether the run was begun before. */
  readonly isResumed: boolean
}

/** A run of a pipeline is over for the process that started or resumed it: it has ended, was stopped or interrupted. */
export interface RunEnded extends About {
  readonly type: 'run_ended'
  /** Where the run is in its life now. */
  readonly status: string
  /** Its items by status. */
  readonly counts: Readonly<Record<string, number>>
  /** Since the run was opened, over all processes. */
  readonly durationMs: number
}

/**
 * A worker could not renew its lease in time, because the store was away or the process was suspended: other workers may
 * have its tasks by now. `work` is the worker.
 */
export interface LeaseLost extends About {
  readonly type: 'lease_lost'
  /** How many tasks it was running. */
  readonly running: number
}

/** A slot of a schedule has ended. Told by the worker that fired it. `work` is the schedule, with the id of the slot's run. */
export interface SlotEnded extends About {
  readonly type: 'slot_ended'
  /** The slot, in milliseconds since the epoch. */
  readonly slot: number
  /** The last slot, if this stands for all from `slot` on. */
  readonly until?: number
  /** Whether its run was enqueued, or why not: it was skipped, missed, or an earlier run had not finished. */
  readonly end: 'ran' | 'skipped' | 'missed' | 'overlapped'
  /** Why, in words. Absent for a slot that ran in time. */
  readonly reason?: string
}

interface AboutGate extends About {
  /** The kind of task that the gate is for. */
  readonly taskKind: string
  /** The category; absent if the gate is for all of them. */
  readonly category?: string
}

/**
 * Too many attempts of a kind failed, so no task of it starts, on any machine, until a probe succeeds. Emitted by the
 * worker whose settlement opened the gate, again each time that a probe fails. `work` is the worker.
 */
export interface GateOpened extends AboutGate {
  readonly type: 'gate_opened'
  /** When the next task probes, in milliseconds since the epoch. */
  readonly until: number
  /** How many holds there were in a row, with this one. */
  readonly holds: number
  /** The error code of the commonest failure. */
  readonly code: string
  /** The group of the commonest failure, if it has one. */
  readonly group?: string
  /** Attempts that were counted. */
  readonly attempts: number
  /** How many of them failed. */
  readonly failed: number
}

/** Enough tasks have succeeded since the gate opened: the kind runs as before. `work` is the worker. */
export interface GateClosed extends AboutGate {
  readonly type: 'gate_closed'
}

/** Something that happened to a piece of work. All kinds of work emit one stream of these, which sinks take. */
export type WorkEvent =
  | AttemptEvent
  | LeaseLost
  | GateOpened
  | GateClosed
  | SlotEnded
  | RunStarted
  | RunEnded
  | IdempotencyUsed
  | IdempotencyNotRecorded
  | SweepEvent

/** Something that happened to documents in a user's own collections. */
export type SweepEvent = Swept | Superseded | CollectionSwept | SweepEnded | CoverageChecked

/** Something that happened to an attempt. */
export type AttemptEvent =
  | AttemptStarted
  | AttemptSucceeded
  | ResultNotKept
  | Skipped
  | TimedOut
  | Overran
  | RetryScheduled
  | GaveUp
