import { isEncoded, shownText } from '../codec/internal.js'
import { exactValue } from '../policy/internal.js'
import type { LedgerRow, TaskRecord, TaskStatus } from '../store/index.js'
import { type Cost, FAILED_BY_HAND } from '../store/internal.js'
import { type NotesView, notesView } from './notes-view.js'

/** A task as plain JSON: times as ISO 8601 text in UTC, `null` where there is no value. */
export interface TaskView {
  /** The id of the task. */
  readonly id: string
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Part of its lane; empty if it has none. */
  readonly category: string
  /** The key of its lane; empty if it has none. */
  readonly key: string
  /** Where it is in its life. */
  readonly status: TaskStatus
  /** Higher goes first. */
  readonly priority: number
  /** When it was submitted. */
  readonly submittedAt: string
  /** When the task reached its status. */
  readonly changedAt: string
  /** When the next attempt is due; `null` while it runs and once it has ended. */
  readonly nextAttemptAt: string | null
  /** Whether it waits under a retry budget: once it is due, it is held until the budget lets it through. */
  readonly isBudgeted: boolean
  /** The unique key that it was enqueued with; `null` if it had none. */
  readonly uniqueKey: string | null
  /** Whether it waits for the end of the task that has its unique key. */
  readonly isQueued: boolean
  /** Failed attempts that were scheduled again. */
  readonly retryCount: number
  /** When the next retry is due. `null` for a task that waits for its first attempt. */
  readonly nextRetryAt: string | null
  /** Failed attempts. */
  readonly attempts: number
  /** Waits that a rate limit asked for. */
  readonly deferrals: number
  /** How many workers died while running it. */
  readonly losses: number
  /** The class of the last verdict. */
  readonly errorClass: NonNullable<TaskRecord['errorClass']> | null
  /** The code of the last verdict, such as `http_502`. */
  readonly errorCode: string | null
  /** Name and message of the last failure, bounded and redacted. */
  readonly errorMessage: string | null
  /** The failure group of its last failure. */
  readonly group: string | null
  /** Why it is dead or was skipped. */
  readonly reason: string | null
  /** The fields of its policy that are its own; `null` if its policy is that of its kind. */
  readonly policy: unknown
  /** Why its payload, its result or its error is not shown as it was: a codec or a key is missing; `null` if nothing is. */
  readonly unreadable: string | null
  /** The value itself, or the encoded text. */
  readonly payload: unknown
  /** The input of an item's present stage, if it is not the payload. */
  readonly value: unknown
  /** The value that its handler returned. */
  readonly result: unknown
}

/** A row of the ledger as plain JSON. */
export interface LedgerRowView extends NotesView {
  /** Its place in the history, from 1. */
  readonly sequence: number
  /** The category that the task was in: the stage of an item. */
  readonly category: string | null
  /** The number of the attempt; 0 for a row that is not an attempt. */
  readonly attempt: number
  /** When the attempt began. */
  readonly startedAt: string
  /** When it ended. */
  readonly endedAt: string
  /** The worker that made it, or the person who redrove the task. */
  readonly worker: string
  /** How it ended. */
  readonly outcome: LedgerRow['outcome']
  /** The verdict on its failure. */
  readonly verdict: NonNullable<LedgerRow['verdict']> | null
  /** The delay until the next attempt. */
  readonly delayMs: number | null
  /** The delay that the code of its kind asked for, in place of the backoff; `null` if it did not. */
  readonly askedMs: number | null
  /** Why the task is dead, was skipped or was redriven. */
  readonly reason: string | null
  /** The payload that an edit replaced; `null` in other rows. */
  readonly payloadBefore: unknown
  /** Name and message of the failure, bounded and redacted. */
  readonly error: string | null
  /** Where the code failed: a line for each frame. */
  readonly stack: string | null
  /** The random number that placed the delay within its jitter. */
  readonly random: number | null
  /** The hash of the policy that decided. */
  readonly policy: string | null
  /** The version of the pipeline that ran it. */
  readonly version: string | null
  /** The call of a batch stage that it was part of. */
  readonly call: string | null
  /** The version of the application that made the attempt. */
  readonly release: string | null
  /** The id of its trace. */
  readonly trace: string | null
  /** The step of the handler that ended it: it failed, or waits for its next attempt. */
  readonly step: string | null
  /** How much it took from each bucket, as its handler reported; `null` if it did not. */
  readonly used: Cost | null
  /** Steps on record that the handler did not use. */
  readonly unusedSteps: readonly string[]
}

/** The view of a task. */
export function taskView(task: TaskRecord): TaskView {
  return {
    id: task.id,
    kind: task.kind,
    category: task.category,
    key: task.key,
    status: task.status,
    priority: task.priority,
    submittedAt: iso(task.submittedAt),
    changedAt: iso(task.changedAt),
    nextAttemptAt: isoOrNull(task.nextAttemptAt),
    isBudgeted: task.isBudgeted === true,
    uniqueKey: task.unique?.key ?? null,
    isQueued: task.isQueued === true,
    retryCount: retryCount(task),
    nextRetryAt: isoOrNull(nextRetryAt(task)),
    attempts: task.attempts,
    deferrals: task.deferrals,
    losses: task.losses,
    errorClass: task.errorClass ?? null,
    errorCode: task.errorCode ?? null,
    errorMessage: shown(task.errorMessage),
    group: task.group ?? null,
    reason: task.reason ?? null,
    policy: task.policy === undefined ? null : exactValue(task.policy),
    unreadable: encodedText(task),
    payload: exactValue(task.payload),
    value: task.value === undefined ? null : exactValue(task.value),
    result: task.result === undefined ? null : exactValue(task.result),
  }
}

/** The view of a row of the ledger. */
export function ledgerRowView(row: LedgerRow): LedgerRowView {
  return {
    sequence: row.sequence,
    category: row.category ?? null,
    attempt: row.attempt,
    startedAt: iso(row.startedAt),
    endedAt: iso(row.endedAt),
    worker: row.worker,
    outcome: row.outcome,
    verdict: row.verdict ?? null,
    delayMs: row.delayMs ?? null,
    askedMs: row.notes?.askedMs ?? null,
    reason: row.reason ?? null,
    payloadBefore: row.before?.payload === undefined ? null : exactValue(row.before.payload),
    error: shown(row.error),
    stack: shown(row.stack),
    random: row.random ?? null,
    policy: row.policy ?? null,
    version: row.version ?? null,
    call: row.call ?? null,
    release: row.release ?? null,
    trace: row.trace ?? null,
    step: row.notes?.step ?? null,
    used: row.notes?.used ?? null,
    unusedSteps: row.notes?.unusedSteps ?? [],
    ...notesView(row.notes),
  }
}

/** The text of a failure, without a part that is encoded. */
export function shown(text: string | undefined): string | null {
  return text === undefined ? null : shownText(text)
}

function encodedText({ kind, payload, value = '', result = '', errorMessage = '' }: TaskRecord): string | null {
  const isReadable = ![payload, value, result].some(isEncoded) && shownText(errorMessage) === errorMessage
  if (isReadable) return null
  return `The kind '${kind}' is encoded, and there is no codec for it here.`
}

/** The attempt that a task died of was not scheduled again. A loss is no attempt. */
function retryCount({ status, reason, attempts }: TaskRecord): number {
  const isDiscarded = status === 'cancelled' && reason !== undefined
  const diedOfAttempt = isDiscarded || (status === 'dead' && reason !== 'losses_exhausted' && reason !== FAILED_BY_HAND)
  return Math.max(0, diedOfAttempt ? attempts - 1 : attempts)
}

function nextRetryAt({ status, attempts, deferrals, nextAttemptAt }: TaskRecord): number | undefined {
  return status === 'waiting' && attempts + deferrals > 0 ? nextAttemptAt : undefined
}

function iso(at: number): string {
  return new Date(at).toISOString()
}

export function isoOrNull(at: number | undefined): string | null {
  return at === undefined ? null : iso(at)
}
