import type { AttemptEntry, LedgerRow, Outcome, Retention, TaskRecord } from '../store.js'

/** What new work has, and what a success or a skip leaves. */
export const NO_FAILURES = {
  attempts: 0,
  deferrals: 0,
  losses: 0,
  previousDelayMs: undefined,
  errorClass: undefined,
  errorCode: undefined,
  errorMessage: undefined,
} as const

/** The record after an outcome. `counted` is 1 if a failed attempt was made that is not counted yet. */
export function afterOutcome(
  record: TaskRecord,
  outcome: Outcome,
  attempt: AttemptEntry | undefined,
  counted: 0 | 1,
  now: number,
): TaskRecord {
  const ended = { ...record, ...errorOf(attempt), nextAttemptAt: undefined, changedAt: now }
  const waiting = { ...ended, status: 'waiting' } as const
  switch (outcome.type) {
    case 'succeeded':
      return { ...ended, ...NO_FAILURES, status: 'succeeded', result: outcome.result }
    case 'skipped':
      return { ...ended, ...NO_FAILURES, status: 'skipped', reason: outcome.reason }
    case 'retry': {
      const previousDelayMs = outcome.isBackoff ? outcome.delayMs : record.previousDelayMs
      const attempts = record.attempts + counted
      return { ...waiting, attempts, previousDelayMs, nextAttemptAt: now + outcome.delayMs }
    }
    case 'deferred':
      return { ...waiting, deferrals: record.deferrals + counted, nextAttemptAt: now + outcome.delayMs }
    case 'later':
      return { ...waiting, nextAttemptAt: now + outcome.delayMs }
    case 'dead':
      return { ...ended, status: 'dead', attempts: record.attempts + counted, reason: outcome.reason }
    case 'cancelled':
      return { ...ended, status: 'cancelled' }
    case 'released':
      return { ...waiting, nextAttemptAt: now }
  }
}

/** Whether a task waits again after an outcome. */
export function isAnotherTry({ type }: Outcome): boolean {
  return type === 'retry' || type === 'deferred' || type === 'later' || type === 'released'
}

/** Whether a task ended so long ago that it need not be kept. */
export function isOver({ status, changedAt }: TaskRecord, { endedMs, deadMs }: Retention, now: number): boolean {
  if (status === 'waiting' || status === 'running') return false
  const keepMs = status === 'dead' ? deadMs : endedMs
  return keepMs !== undefined && changedAt <= now - keepMs
}

/** What the ledger keeps of an outcome besides its name. */
export function consequence(outcome: Outcome): Pick<LedgerRow, 'delayMs' | 'reason'> {
  return {
    delayMs: 'delayMs' in outcome ? outcome.delayMs : undefined,
    reason: 'reason' in outcome ? outcome.reason : undefined,
  }
}

function errorOf(attempt: AttemptEntry | undefined): Partial<TaskRecord> {
  if (attempt?.verdict === undefined) return {}
  return { errorClass: attempt.verdict.class, errorCode: attempt.verdict.code, errorMessage: attempt.error }
}
