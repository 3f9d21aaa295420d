import type { Outcome } from '../contract/claim.js'
import type { FailureGroup } from '../contract/group-store.js'
import type { AttemptEntry, Before, By } from '../contract/ledger.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import { type Answer, answerOf, isFirstAttempt } from './budgets/attempt-counts.js'
import { lostGroup } from './groups/failure-group.js'
import { acted, attempted, decided, type LedgerChange, type LostClaim } from './ledger-change.js'
import type { EndByHand } from './operator-acts.js'

/**
 * The rules of a settlement: where a task stands after an attempt has ended, after its worker has died, and after a
 * redrive. Pure. Memory and SQLite share them, and PostgreSQL has them in SQL. Hot paths repeat a part of them, and name them:
 *
 * | rule              | in SQLite                                 | in PostgreSQL                      |
 * |-------------------|-------------------------------------------|------------------------------------|
 * | `afterSettlement` | `successes`, `plain-retry`, `advance`     | `succeed`, `advance`, `lock_ended` |
 * | `afterLoss`       |                                           | `lock_ended`                       |
 * | `afterRedrive`    | `redrive` in `operators`                  | `move_dead`                        |
 * | `afterUndo`       |                                           | `undo_members`                     |
 * | `afterDiscard`    |                                           | `discard`                          |
 * | `afterEndByHand`  |                                           | `finish`                           |
 *
 * The conformance suite and the model test hold for all of them.
 */

type Failures = Pick<
  TaskRecord,
  'attempts' | 'deferrals' | 'losses' | 'previousDelayMs' | 'errorClass' | 'errorCode' | 'errorMessage' | 'group'
>

/** The part of a task that the rules read. */
export interface Standing extends Failures {
  readonly startedAt: number
  readonly changedAt: number
  readonly reason: string | undefined
  /** Its last attempt was lost, and nobody has decided yet what follows. */
  readonly isUndecided: boolean
  /** Somebody asked to cancel it while it was running. */
  readonly isToBeCancelled: boolean
}

/** The outcome of an item that goes on to its next stage. */
export type Advance = Extract<Outcome, { readonly type: 'advanced' }>

/** Where the task stands afterwards. */
export interface After extends Failures {
  readonly status: Exclude<TaskStatus, 'running'>
  readonly startedAt: number
  readonly nextAttemptAt: number | undefined
  readonly isUndecided: boolean
  readonly reason: string | undefined
  readonly result: string | undefined
  readonly ledger: LedgerChange
  /** The group of the failure that the ledger's new row is about. The store counts it, and knows its `group` by then. */
  readonly failed: FailureGroup | undefined
  /** Where an item goes on: to another lane, where it waits unless the worker can keep it. */
  readonly advance: Advance | undefined
  /**
   * `hold`: a rate limit closes the lane until the next attempt. `answer`: the lane has borne another attempt. Tasks that end
   * without one, as when their time to live is over, tell nothing of the service: a lane that starts slowly stays as it is.
   */
  readonly lane: 'hold' | 'answer' | 'none'
  /** The word of the attempt to the budgets of its kind. */
  readonly answer: Answer
  /** Whether a first attempt has come to an end, which earns retries. */
  readonly isFirst: boolean
  /** Whether a failed attempt is to be repeated, which a retry budget may hold. */
  readonly isRetry: boolean
}

/** The counters and errors of new work, and of work that succeeded or was skipped. */
export const NO_FAILURES: Failures = {
  attempts: 0,
  deferrals: 0,
  losses: 0,
  previousDelayMs: undefined,
  errorClass: undefined,
  errorCode: undefined,
  errorMessage: undefined,
  group: undefined,
}

/** The end of a waiting task whose time to live is over while nobody runs it. */
export const EXPIRED: Outcome = { type: 'dead', reason: 'ttl_expired' }

/**
 * With this many losses a task runs alone in its worker: a task that kills workers must not take its neighbours with it.
 * Not from the first loss on, since that is mostly a deploy or a crash that the task has nothing to do with.
 */
export const ALONE_FROM_LOSSES = 2

/** After a settlement. Without an `attempt` none was made: nothing is counted, and the ledger stays as it is. */
export function afterSettlement(
  standing: Standing,
  asked: Outcome,
  attempt: AttemptEntry | undefined,
  now: number,
): After {
  // A task that is to be cancelled ends where it would wait again. A lost attempt counts all the same.
  const isCancelled = standing.isToBeCancelled && waitsAgain(asked) && asked.type !== 'lost'
  const outcome: Outcome = isCancelled ? { type: 'cancelled' } : asked
  // A task that is handed back has made no attempt, whatever the settlement brings.
  const entry = asked.type === 'released' ? undefined : attempt
  const isDecision = standing.isUndecided && (asked.type === 'retry' || asked.type === 'dead')
  const counted = isDecision ? undefined : entry
  const after = ended(standing, entry, isDecision ? decided(outcome, entry) : attempted(outcome, entry))
  if (counted !== undefined) after.lane = 'answer'
  after.answer = answerOf(outcome, counted)
  after.isFirst = isFirstAttempt(outcome, counted)
  if (counted?.verdict !== undefined) after.failed = counted.group

  switch (outcome.type) {
    case 'succeeded':
      after.result = outcome.result
      after.reason = outcome.reason
      return cleared(after, 'succeeded')
    case 'skipped':
      after.reason = outcome.reason
      return cleared(after, 'skipped')
    case 'advanced':
      after.advance = outcome
      after.startedAt = now
      return Object.assign(waiting(after, now), NO_FAILURES, { failed: undefined })
    case 'dead':
      after.status = 'dead'
      after.attempts = attemptsAfter(standing, counted)
      after.reason = outcome.reason
      return after
    case 'cancelled':
      after.lane = 'none'
      return after
    case 'later':
      return waiting(after, now, outcome.delayMs)
    case 'deferred':
      if (counted !== undefined) after.deferrals++
      after.lane = 'hold'
      return waiting(after, now, outcome.delayMs)
    case 'retry':
      after.attempts = attemptsAfter(standing, counted)
      if (outcome.isBackoff) after.previousDelayMs = Math.round(outcome.delayMs)
      after.isRetry = !isDecision
      return waiting(after, now, outcome.delayMs)
    case 'lost':
      return afterLostAttempt(standing, attempt, now)
    case 'released':
      // A loss that nobody has decided on stays undecided.
      after.isUndecided = standing.isUndecided
      return waiting(after, now)
  }
}

/** An item that failed in several calls of a batch stage has made as many attempts, and its entry has their number. */
function attemptsAfter({ attempts }: Standing, counted: AttemptEntry | undefined): number {
  return counted === undefined ? attempts : Math.max(attempts + 1, counted.attempt)
}

/** After the death of the worker that ran the task. It costs no attempt. Somebody has yet to decide what follows. */
export function afterLoss(standing: Standing, claim: LostClaim & { readonly kind: string }, now: number): After {
  // A task that was claimed for a decision had not been started, so nothing was lost.
  if (standing.isUndecided) return afterSettlement(standing, { type: 'released' }, undefined, now)
  const { kind, ...held } = claim
  const attempt = { attempt: standing.attempts + 1, ...held, endedAt: now, group: lostGroup(kind) }
  return afterLostAttempt(standing, attempt, now)
}

/** After an attempt that was lost, with its worker or to it. */
function afterLostAttempt(standing: Standing, attempt: AttemptEntry | undefined, now: number): After {
  const released = afterSettlement(standing, { type: 'released' }, undefined, now)
  const losses = standing.losses + 1
  const ledger = attempted({ type: 'lost' }, attempt)
  return { ...released, losses, isUndecided: released.status === 'waiting', ledger, failed: attempt?.group }
}

/**
 * After a redrive: fresh attempts, deferrals and time to live. Losses stay, so a task that kills workers stays alone, and so
 * does its group, which tells whether it dies of the same failure again.
 */
export function afterRedrive(standing: Standing, by: By, now: number): After {
  const fresh = { ...standing, ...NO_FAILURES, losses: standing.losses, group: standing.group, startedAt: now }
  const after = ended(fresh, undefined, acted('redriven', by, now, beforeOf(standing)))
  return waiting(after, now)
}

/** The part of a dead letter that a redrive clears, in the order in which it is written. */
function beforeOf(standing: Standing): Before {
  const { attempts, deferrals, startedAt, changedAt, previousDelayMs } = standing
  const { errorClass, errorCode, errorMessage, reason } = standing
  return { attempts, deferrals, startedAt, changedAt, previousDelayMs, errorClass, errorCode, errorMessage, reason }
}

/** After a redrive or a discard was undone: the dead letter as it was. Its losses were kept. */
export function afterUndo(standing: Standing, before: Before, by: By, now: number): After {
  const { attempts = 0, deferrals = 0, startedAt = standing.startedAt, reason } = before
  const { previousDelayMs, errorClass, errorCode, errorMessage } = before
  const failures = {
    attempts,
    deferrals,
    losses: standing.losses,
    previousDelayMs,
    errorClass,
    errorCode,
    errorMessage,
  }
  const after = ended({ ...standing, ...failures, startedAt }, undefined, acted('undone', by, now))
  after.status = 'dead'
  after.reason = reason
  return after
}

/** After a dead letter was discarded: it is cancelled, and its counters and its error stay. */
export function afterDiscard(standing: Standing, by: Required<By>, now: number): After {
  const after = ended(standing, undefined, acted('discarded', by, now, beforeOf(standing)))
  after.reason = by.why
  return after
}

/** The reason of a dead letter that a person has made, and the code of its error. */
export const FAILED_BY_HAND = 'failed_by_hand'

/** After a person has ended a task, whatever became of it before. What the person says of a failure is its last error. */
export function afterEndByHand(standing: Standing, end: EndByHand, by: By, now: number): After {
  if (end.type === 'succeeded') {
    const after = ended(standing, undefined, acted('completed', by, now))
    after.result = end.result
    return cleared(after, 'succeeded')
  }
  const after = ended(standing, undefined, acted('failed', by, now))
  after.status = 'dead'
  after.reason = FAILED_BY_HAND
  after.errorClass = 'final'
  after.errorCode = FAILED_BY_HAND
  after.errorMessage = by.why
  return after
}

/** Whether the task waits again after an outcome, or may. */
export function waitsAgain({ type }: Outcome): boolean {
  return !(type === 'succeeded' || type === 'skipped' || type === 'dead' || type === 'cancelled')
}

/** Whether a waiting task is to run alone in its worker. */
export function runsAlone({ losses }: Pick<TaskRecord, 'losses'>): boolean {
  return losses >= ALONE_FROM_LOSSES
}

/** An `After` in the making: changed in place, since copies of an object this large cost more than writing its row. */
type Draft = { -readonly [Field in keyof After]: After[Field] }

/** A task whose attempt has ended, without anything to follow. */
function ended(standing: Standing, entry: AttemptEntry | undefined, ledger: LedgerChange): Draft {
  const verdict = entry?.verdict
  return {
    status: 'cancelled',
    startedAt: standing.startedAt,
    nextAttemptAt: undefined,
    attempts: standing.attempts,
    deferrals: standing.deferrals,
    losses: standing.losses,
    isUndecided: false,
    previousDelayMs: standing.previousDelayMs,
    errorClass: verdict === undefined ? standing.errorClass : verdict.class,
    errorCode: verdict === undefined ? standing.errorCode : verdict.code,
    errorMessage: verdict === undefined ? standing.errorMessage : entry?.error,
    group: standing.group,
    failed: undefined,
    reason: undefined,
    result: undefined,
    ledger,
    advance: undefined,
    lane: 'none',
    answer: 'none',
    isFirst: false,
    isRetry: false,
  }
}

/** Due times are whole milliseconds, rounded up: no attempt starts early. */
function waiting(after: Draft, now: number, delayMs = 0): After {
  after.status = 'waiting'
  after.nextAttemptAt = Math.ceil(now + Math.max(0, delayMs))
  return after
}

function cleared(after: Draft, status: 'succeeded' | 'skipped'): After {
  after.status = status
  return Object.assign(after, NO_FAILURES, { failed: undefined })
}
