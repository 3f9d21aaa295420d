import type { Outcome, Settlement } from '../contract/claim.js'
import type { FailureGroup } from '../contract/group-store.js'
import type { AttemptEntry } from '../contract/ledger.js'
import { answerOf, isFirstAttempt } from '../rules/budgets/attempt-counts.js'
import { failureOf } from '../rules/budgets/gate.js'
import { attempted } from '../rules/ledger-change.js'
import { State } from '../rules/task-state.js'
import type { LaneBook } from './lane-book.js'
import type { LaneIds } from './lane-ids.js'
import type { Statements } from './statements.js'
import { held, type Place } from './token.js'

/** A retry after a failure that no rate limit has to do with. */
type PlainRetry = Settlement & {
  readonly outcome: Extract<Outcome, { readonly type: 'retry' }>
  readonly attempt: AttemptEntry & { readonly group: FailureGroup }
}

/** Whether a settlement is a plain retry, as most failures are. */
export function isPlainRetry(settlement: Settlement): settlement is PlainRetry {
  const { outcome, attempt } = settlement
  return (
    outcome.type === 'retry' &&
    attempt?.verdict?.class === 'retryable' &&
    attempt.group !== undefined &&
    attempt.notes === undefined
  )
}

/**
 * A plain retry takes two statements and reads nothing, with the same result as `afterSettlement`: an outage is many of
 * them. Returns false, and has changed nothing, if the token does not hold or the rules have to look at the task: if a lane
 * has limits, if the task was lost, is to be cancelled or is a member of an operation, or if its group is new to this job
 * or is not that of its last failure.
 */
export function retry(
  statements: Statements,
  lanes: LaneIds,
  book: LaneBook,
  { id, outcome, attempt }: PlainRetry,
  place: Place,
  now: number,
): boolean {
  const { seq, lane } = place
  const { verdict, error = null, version = null, call = null, stack = null, trace = null, release = null } = attempt
  const group = book.groups.known(attempt.group)
  const ledger = attempted(outcome, attempt)
  if (group === undefined || ledger.type !== 'append' || book.isAnyBounded) return false
  const { delayMs = 0, startedAt, endedAt, worker, random = null, policy = null } = ledger.row
  const code = verdict?.code ?? null
  const nextAt = Math.ceil(now + Math.max(0, outcome.delayMs))
  const lastGroup = attempt.attempt === 1 ? null : group
  const budget = book.retryBudgetOf(lane)
  const state = nextAt > now ? State.scheduled : null
  const { changes } = statements.retry.run(
    budget === undefined ? state : State.budgeted,
    budget ?? null,
    now,
    nextAt,
    attempt.attempt,
    outcome.isBackoff ? delayMs : null,
    code,
    error,
    group,
    ...held(place, id),
    lastGroup,
  )
  if (changes === 0) return false
  const category = lanes.lane(lane)?.category || null
  const about = [category, attempt.attempt, startedAt, endedAt, worker, version, call, stack, trace, release, group]
  statements.appendRetry.run(seq, seq, ...about, delayMs, code, error, random, policy)
  book.groups.failed(attempt.group, ledger, now)
  if (lastGroup === null) book.groups.enter(group, 'waiting', now)
  book.move(lane, 'running', 'waiting')
  if (book.hasBudgets) {
    const failure = failureOf(verdict?.code, attempt.group.id)
    const isFirst = isFirstAttempt(outcome, attempt)
    book.told(lane, { answer: answerOf(outcome, attempt), failure, isFirst, began: startedAt }, now)
  }
  return true
}
