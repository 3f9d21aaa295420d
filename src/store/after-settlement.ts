import { attempted, decided, type LedgerChange, lost, redriven } from './ledger-change.js'
import type { AttemptEntry, By, Outcome, TaskRecord, TaskStatus } from './store.js'

/**
 * The rules of a settlement: where a task stands after an attempt has ended, after its worker has died, and after a
 * redrive. Pure. Memory and SQLite share them; PostgreSQL has them in SQL, and the conformance suite holds for all three.
 */

type Failures = Pick<
  TaskRecord,
  'attempts' | 'deferrals' | 'losses' | 'previousDelayMs' | 'errorClass' | 'errorCode' | 'errorMessage'
>

/** The part of a task that the rules read. */
export interface Standing extends Failures {
  readonly startedAt: number
  /** Its last attempt was lost, and nobody has decided yet what follows. */
  readonly isUndecided: boolean
  /** Somebody asked to cancel it while it was running. */
  readonly isToBeCancelled: boolean
}

/** Where the task stands afterwards. */
export interface After extends Failures {
  readonly status: Exclude<TaskStatus, 'running'>
  readonly startedAt: number
  readonly nextAttemptAt: number | undefined
  readonly isUndecided: boolean
  readonly reason: string | undefined
  readonly result: string | undefined
  readonly ledger: LedgerChange
  /** `hold`: a rate limit closes the lane until the next attempt. `answer`: the lane has borne another attempt. */
  readonly lane: 'hold' | 'answer' | 'none'
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
}

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
  // A task that is to be cancelled ends where it would wait again.
  const outcome: Outcome = standing.isToBeCancelled && waitsAgain(asked) ? { type: 'cancelled' } : asked
  // A task that is handed back has made no attempt, whatever the settlement brings.
  const entry = asked.type === 'released' ? undefined : attempt
  const isDecision = standing.isUndecided && (asked.type === 'retry' || asked.type === 'dead')
  const counted = entry !== undefined && !isDecision ? 1 : 0
  const failures = { ...failuresOf(standing), ...errorOf(entry) }
  const attempts = failures.attempts + counted
  const deferrals = failures.deferrals + counted
  const ledger = isDecision ? decided(outcome, entry) : attempted(outcome, entry)
  const ended = { ...failures, ...ENDED, startedAt: standing.startedAt, ledger, lane: 'answer' } as const

  switch (outcome.type) {
    case 'succeeded':
      return { ...ended, ...NO_FAILURES, status: 'succeeded', result: outcome.result }
    case 'skipped':
      return { ...ended, ...NO_FAILURES, status: 'skipped', reason: outcome.reason }
    case 'dead':
      return { ...ended, attempts, status: 'dead', reason: outcome.reason }
    case 'cancelled':
      return { ...ended, status: 'cancelled', lane: 'none' }
    case 'later':
      return { ...ended, ...waiting(now, outcome.delayMs) }
    case 'deferred':
      return { ...ended, deferrals, ...waiting(now, outcome.delayMs), lane: 'hold' }
    case 'retry': {
      const previousDelayMs = outcome.isBackoff ? Math.round(outcome.delayMs) : failures.previousDelayMs
      return { ...ended, attempts, previousDelayMs, ...waiting(now, outcome.delayMs) }
    }
    case 'released':
      // A loss that nobody has decided on stays undecided.
      return { ...ended, ...waiting(now), isUndecided: standing.isUndecided, lane: 'none' }
  }
}

/** After the death of the worker that ran the task. It costs no attempt. Somebody has yet to decide what follows. */
export function afterLoss(
  standing: Standing,
  claim: { readonly worker: string; readonly startedAt: number },
  now: number,
): After {
  const released = afterSettlement(standing, { type: 'released' }, undefined, now)
  // A task that was claimed for a decision had not been started, so nothing was lost.
  if (standing.isUndecided) return released
  const losses = standing.losses + 1
  const ledger = lost(standing.attempts + 1, claim.startedAt, now, claim.worker)
  return { ...released, losses, isUndecided: released.status === 'waiting', ledger }
}

/** After a redrive: fresh attempts, deferrals and time to live. Losses stay, so a task that kills workers stays alone. */
export function afterRedrive({ losses }: Standing, by: By, now: number): After {
  const fresh = { ...NO_FAILURES, losses, ...ENDED, startedAt: now, ledger: redriven(by, now), lane: 'none' } as const
  return { ...fresh, ...waiting(now) }
}

/** Whether the task waits again after an outcome. */
export function waitsAgain({ type }: Outcome): boolean {
  return type === 'retry' || type === 'deferred' || type === 'later' || type === 'released'
}

/** Whether a waiting task is to run alone in its worker. */
export function runsAlone({ losses }: Pick<TaskRecord, 'losses'>): boolean {
  return losses >= ALONE_FROM_LOSSES
}

const ENDED = { nextAttemptAt: undefined, isUndecided: false, reason: undefined, result: undefined } as const

/** Due times are whole milliseconds, rounded up: no attempt starts early. */
function waiting(now: number, delayMs = 0) {
  return { status: 'waiting', nextAttemptAt: Math.ceil(now + Math.max(0, delayMs)) } as const
}

function failuresOf(standing: Standing): Failures {
  const { attempts, deferrals, losses, previousDelayMs, errorClass, errorCode, errorMessage } = standing
  return { attempts, deferrals, losses, previousDelayMs, errorClass, errorCode, errorMessage }
}

function errorOf(attempt: AttemptEntry | undefined): Partial<Failures> {
  if (attempt?.verdict === undefined) return {}
  return { errorClass: attempt.verdict.class, errorCode: attempt.verdict.code, errorMessage: attempt.error }
}
