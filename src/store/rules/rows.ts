import type { Verdict } from '../../policy/index.js'
import type { AttemptNotes } from '../contract/attempt-notes.js'
import type { LaneLimits } from '../contract/lane.js'
import type { Before, LedgerRow } from '../contract/ledger.js'
import type { TaskRecord, UniqueScope } from '../contract/task.js'
import { State, statusOf } from './task-state.js'
import { QUEUED_UNTIL } from './unique.js'

/** A task joined with its lane. */
export interface TaskRow {
  readonly id: string
  readonly kind: string
  readonly category: string
  readonly key: string
  readonly payload: string
  readonly value: string | null
  readonly state: number
  readonly priority: number
  readonly submitted_at: number
  readonly started_at: number
  readonly changed_at: number
  readonly next_at: number | null
  readonly attempts: number
  readonly deferrals: number
  readonly losses: number
  readonly previous_delay: number | null
  readonly error_class: string | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly failure_group: string | null
  readonly reason: string | null
  readonly result: string | null
  readonly traceparent: string | null
  readonly operation: string | null
  readonly unique_key: string | null
  readonly unique_while: string | null
  readonly policy: string | null
}

/** A row of the table `ledger`. */
export interface EntryRow {
  readonly sequence: number
  readonly attempt: number
  readonly started_at: number
  readonly ended_at: number
  readonly worker: string
  readonly outcome: LedgerRow['outcome']
  readonly delay_ms: number | null
  readonly reason: string | null
  readonly error_class: string | null
  readonly error_code: string | null
  readonly retry_after: number | null
  readonly error: string | null
  readonly stack: string | null
  readonly random: number | null
  readonly policy: string | null
  readonly category: string | null
  readonly version: string | null
  readonly call: string | null
  readonly trace: string | null
  readonly release: string | null
  /** JSON. */
  readonly before: string | null
  readonly failure_group: string | null
  /** JSON. */
  readonly notes: string | null
}

/** The columns of a `TaskRow`, from `task` joined with `lane`. Some may come from elsewhere. */
export function taskColumns({
  state = 'task.state',
  changedAt = 'task.changed_at',
  nextAt = 'task.next_at',
}: {
  readonly state?: string
  readonly changedAt?: string
  readonly nextAt?: string
} = {}): string {
  return /* sql */ `
    task.id, lane.kind, lane.category, lane.key, task.payload, task.value, ${state} AS state, task.priority,
    task.submitted_at, task.started_at, ${changedAt} AS changed_at, ${nextAt} AS next_at, task.attempts, task.deferrals,
    task.losses, task.previous_delay, task.error_class, task.error_code, task.error_message, task.failure_group, task.reason,
    task.result, task.traceparent, task.operation, task.unique_key, task.unique_while, task.policy`
}

/** Converts a row to a record. */
export function taskRecord(row: TaskRow): TaskRecord {
  return {
    id: row.id,
    kind: row.kind,
    category: row.category,
    key: row.key,
    payload: row.payload,
    value: row.value ?? undefined,
    status: statusOf(row.state),
    priority: row.priority,
    submittedAt: row.submitted_at,
    startedAt: row.started_at,
    ...(row.next_at === QUEUED_UNTIL
      ? { nextAttemptAt: undefined, isQueued: true }
      : { nextAttemptAt: row.next_at ?? undefined }),
    ...(row.state === State.budgeted && { isBudgeted: true }),
    attempts: row.attempts,
    deferrals: row.deferrals,
    losses: row.losses,
    previousDelayMs: row.previous_delay ?? undefined,
    errorClass: errorClass(row.error_class),
    errorCode: row.error_code ?? undefined,
    errorMessage: row.error_message ?? undefined,
    group: isCleared(row.state) ? undefined : (row.failure_group ?? undefined),
    reason: row.reason ?? undefined,
    result: row.result ?? undefined,
    changedAt: row.changed_at,
    traceparent: row.traceparent ?? undefined,
    ...(row.unique_key !== null && { unique: { key: row.unique_key, while: row.unique_while as UniqueScope } }),
    ...(row.policy !== null && { policy: row.policy }),
    operation: row.operation ?? undefined,
  }
}

/** A success or a skip has left its group, though PostgreSQL may still have it in its row. */
function isCleared(state: number): boolean {
  return state === State.succeeded || state === State.skipped
}

/** Converts a row of the table `ledger`. */
export function ledgerRow(row: EntryRow): LedgerRow {
  return {
    sequence: row.sequence,
    category: row.category || undefined,
    attempt: row.attempt,
    startedAt: row.started_at,
    endedAt: row.ended_at,
    worker: row.worker,
    outcome: row.outcome,
    delayMs: row.delay_ms ?? undefined,
    reason: row.reason ?? undefined,
    verdict: verdict(row),
    error: row.error ?? undefined,
    stack: row.stack ?? undefined,
    group: row.failure_group ?? undefined,
    random: row.random ?? undefined,
    policy: row.policy ?? undefined,
    version: row.version ?? undefined,
    call: row.call ?? undefined,
    trace: row.trace ?? undefined,
    release: row.release ?? undefined,
    before: row.before === null ? undefined : (JSON.parse(row.before) as Before),
    notes: row.notes === null ? undefined : (JSON.parse(row.notes) as AttemptNotes),
  }
}

/** Reads the column of an error's class. */
export function errorClass(text: string | null): Verdict['class'] | undefined {
  return text === 'final' || text === 'retryable' || text === 'rate_limited' ? text : undefined
}

function verdict({ error_class, error_code, retry_after }: EntryRow): Verdict | undefined {
  const name = errorClass(error_class)
  if (name === undefined) return undefined
  const code = error_code ?? ''
  if (name !== 'rate_limited') return { class: name, code }
  return retry_after === null ? { class: name, code } : { class: name, code, retryAfterMs: retry_after }
}

/** The limits of a lane's row; those that are not set are left out. */
export function laneLimits(row: {
  readonly concurrency: number | null
  readonly per_second: number | null
  readonly ordered: number | boolean
  readonly blocking: number | boolean
}): LaneLimits {
  return {
    ...(row.concurrency !== null && { concurrency: row.concurrency }),
    ...(row.per_second !== null && { perSecond: row.per_second }),
    ...(Boolean(row.ordered) && { isOrdered: true }),
    ...(Boolean(row.blocking) && { onDead: 'block' as const }),
  }
}
