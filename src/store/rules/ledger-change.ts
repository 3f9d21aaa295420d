import type { Verdict } from '../../policy/index.js'
import type { Outcome } from '../contract/claim.js'
import type { AttemptEntry, Before, By, LedgerRow } from '../contract/ledger.js'

/** How a settlement changes the ledger: with a new row, by completing its last `lost` row, or not at all. */
export type LedgerChange =
  | { readonly type: 'append'; readonly row: NewLedgerRow }
  | { readonly type: 'complete'; readonly row: LossDecision }
  | { readonly type: 'none' }

/** A row whose place in the history is not known yet. The store adds the category that the task was in, and the group. */
export type NewLedgerRow = Omit<LedgerRow, 'sequence' | 'category' | 'group'>

/** The part of a `lost` row that the decision on it brings. */
export type LossDecision = Pick<LedgerRow, 'delayMs' | 'reason' | 'verdict' | 'error' | 'random' | 'policy'>

/** Appends an attempt, if one was made. */
export function attempted(outcome: Outcome, entry: AttemptEntry | undefined): LedgerChange {
  if (entry === undefined || outcome.type === 'released') return { type: 'none' }
  const {
    attempt,
    startedAt,
    endedAt,
    worker,
    verdict,
    error,
    stack,
    random,
    policy,
    version,
    call,
    trace,
    release,
    notes,
  } = entry
  const row = {
    outcome: outcome.type,
    attempt,
    startedAt: Math.round(startedAt),
    endedAt: Math.round(endedAt),
    worker,
    delayMs: delayOf(outcome),
    reason: reasonOf(outcome),
    verdict: wholeHint(verdict),
    error,
    stack,
    random,
    policy,
    version,
    call,
    trace,
    release,
    notes,
  }
  return { type: 'append', row }
}

/** The claim of a worker that died: who had the task, since when, and what the worker had reported. */
export type LostClaim = Pick<LedgerRow, 'worker' | 'startedAt' | 'release' | 'notes'>

/** Completes the `lost` row with the decision on it. */
export function decided(outcome: Outcome, entry: AttemptEntry | undefined): LedgerChange {
  const { verdict, error, random, policy } = entry ?? {}
  const decision = { delayMs: delayOf(outcome), reason: reasonOf(outcome), verdict: wholeHint(verdict) }
  return { type: 'complete', row: { ...decision, error, random, policy } }
}

/** Appends an operator's act: who asked, why, and what it replaces. */
export function acted(
  outcome:
    | 'redriven'
    | 'cancelled'
    | 'discarded'
    | 'completed'
    | 'failed'
    | 'undone'
    | 'edited'
    | 'promoted'
    | 'rescheduled'
    | 'prioritized'
    | 'cancel_requested',
  { who, why }: By,
  now: number,
  before?: Before,
): LedgerChange {
  const row = { attempt: 0, startedAt: now, endedAt: now, worker: who, delayMs: undefined, reason: why, before }
  return { type: 'append', row: { outcome, ...row } }
}

function delayOf(outcome: Outcome): number | undefined {
  return 'delayMs' in outcome ? Math.round(outcome.delayMs) : undefined
}

function reasonOf(outcome: Outcome): string | undefined {
  return 'reason' in outcome ? outcome.reason : undefined
}

/** Stores keep whole milliseconds. */
function wholeHint(verdict: Verdict | undefined): Verdict | undefined {
  if (verdict?.class !== 'rate_limited' || verdict.retryAfterMs === undefined) return verdict
  return { ...verdict, retryAfterMs: Math.round(verdict.retryAfterMs) }
}
