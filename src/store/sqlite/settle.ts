import { SETTLED, type Settled, type Settlement, STALE } from '../contract/claim.js'
import type { TaskStatus } from '../contract/task.js'
import { type After, afterSettlement, runsAlone, type Standing, waitsAgain } from '../rules/after-settlement.js'
import { failureOf } from '../rules/budgets/gate.js'
import { errorClass } from '../rules/rows.js'
import { hasItems } from '../rules/runs/items.js'
import { State, type StateNumber } from '../rules/task-state.js'
import { advance } from './advance.js'
import { LaneBook } from './lane-book.js'
import type { LaneIds } from './lane-ids.js'
import { writeLedger } from './ledger.js'
import { noteMember } from './operation-tally.js'
import { isPlainRetry, retry } from './plain-retry.js'
import { release } from './release-key.js'
import { parsedCost } from './shared-book.js'
import { type StandingRow, standingRow } from './statements/standing-row.js'
import type { Statements } from './statements.js'
import { isPlainSuccess, type PlainSuccess, Successes, successColumns } from './successes.js'
import { held, type Place, placeOf } from './token.js'

/** The answers to settlements, and whether there may be something new to claim. */
export interface SettledAll {
  readonly results: Settled[]
  readonly isRoomMade: boolean
  /** Whether gates may have to change for what these have counted. */
  readonly isToJudge: boolean
  /** Items of runs that have ended. */
  readonly items: readonly EndedItem[]
}

/** An item that a settlement has ended, and the lane that it ended in. */
export interface EndedItem {
  readonly id: string
  readonly lane: number
  readonly isSucceeded: boolean
}

/** Applies outcomes and writes the ledger, each where its token still holds. Within a transaction. */
export function settle(
  statements: Statements,
  lanes: LaneIds,
  settlements: readonly Settlement[],
  now: number,
): SettledAll {
  const book = new LaneBook(statements)
  const items: EndedItem[] = []
  let isAnyWaiting = false
  lanes.begin()
  const results = new Array<Settled>(settlements.length).fill(STALE)
  const successes = new Successes(statements, book, now)
  const settleOne = (settlement: Settlement, place: Place) =>
    settleByItself(statements, lanes, book, settlement, place, now)
  settlements.forEach((settlement, position) => {
    const place = placeOf(settlement.token)
    if (place === undefined) return
    if (successes.isBlocking(place)) successes.write(results, settleOne)
    if (successes.takes(settlement, place, position)) return
    const settled = settleOne(settlement, place)
    results[position] = settled
    isAnyWaiting ||= settled.result === 'settled' && waitsAgain(settlement.outcome)
    if (hasItems(place.lane) && settled === SETTLED && !waitsAgain(settlement.outcome)) {
      const isSucceeded = settlement.outcome.type === 'succeeded'
      items.push({ id: settlement.id, lane: place.lane, isSucceeded })
    }
  })
  successes.write(results, settleOne)
  book.write()
  return { results, isRoomMade: isAnyWaiting || book.isAnyBounded || book.isAnyFreed, isToJudge: book.isToJudge, items }
}

function settleByItself(
  statements: Statements,
  lanes: LaneIds,
  book: LaneBook,
  settlement: Settlement,
  place: Place,
  now: number,
): Settled {
  const { id, outcome, attempt, used } = settlement
  if (used !== undefined) {
    const row = statements.runningCost.get(...held(place, id))
    if (row !== undefined) book.spent(place.lane, parsedCost(row.cost), used, now)
  }
  if (isPlainSuccess(settlement) && succeed(statements, book, settlement, place, now)) return SETTLED
  if (isPlainRetry(settlement) && retry(statements, lanes, book, settlement, place, now)) return SETTLED
  if (outcome.type === 'advanced') {
    const goOn = () => advance(statements, lanes, book, settlement, outcome, place, now)
    const advanced = goOn() ?? (leaveGroup(statements, book, settlement, place, now) ? goOn() : undefined)
    if (advanced) return advanced
  }
  const values = statements.running.get(...held(place, id))
  if (values === undefined) return STALE
  const row = standingRow(values)
  end(statements, book, row, afterSettlement(standingOf(row), outcome, attempt, now), now)
  return SETTLED
}

/**
 * Takes an item that is to advance out of its group: the statements of an advance are for items that never failed at their
 * stage. Returns false if it has none, its token does not hold, or somebody asked to cancel it.
 */
function leaveGroup(statements: Statements, book: LaneBook, { id }: Settlement, place: Place, now: number): boolean {
  const group = statements.groupToLeave.get(...held(place, id))
  if (group === undefined) return false
  statements.leaveGroup.run(place.seq)
  book.groups.leave(group, 'running', now)
  return true
}

/**
 * A plain success takes one statement, with the same result as `afterSettlement`. Returns false if the token does not hold,
 * for members of operations, whose tally has to be kept, for tasks with a unique key, which they give back, and for tasks
 * that have failed before, which leave their group.
 */
function succeed(
  statements: Statements,
  book: LaneBook,
  { id, outcome, attempt }: PlainSuccess,
  place: Place,
  now: number,
): boolean {
  const { lane } = place
  const isHeld = held(place, id)
  const ranFrom = book.isRamping(lane) || book.isGated(lane) ? statements.ranFrom.get(...isHeld) : undefined
  const { changes } = statements.succeed.run(now, outcome.result ?? null, ...successColumns(attempt), ...isHeld)
  if (changes === 0) return false
  book.move(lane, 'running', 'succeeded')
  if (ranFrom !== undefined) book.answered(lane, ranFrom)
  book.accepted(lane, now)
  if (book.hasBudgets)
    book.told(lane, { answer: 'ok', failure: '', isFirst: attempt.attempt === 1, began: ranFrom ?? 0 }, now)
  return true
}

/** Ends the run of a task. */
export function end(statements: Statements, book: LaneBook, row: StandingRow, after: After, now: number): void {
  noteMember(statements, row, after)
  change(statements, book, row, 'running', after, now)
  const { nextAttemptAt = now } = after
  if (nextAttemptAt > now && book.isOrdered(row.lane)) book.holdHead(row.lane, row.id, nextAttemptAt)
  const began = row.ran_from ?? 0
  if (book.hasBudgets) {
    const { answer, isFirst, errorCode, failed } = after
    book.told(row.lane, { answer, failure: failureOf(errorCode, failed?.id), isFirst, began }, now)
  }
  if (after.lane === 'hold') book.refused(row.lane, row.id, began, nextAttemptAt, now)
  if (after.lane !== 'answer') return
  book.answered(row.lane, began)
  book.accepted(row.lane, now)
}

/** Writes where a task stands. `from` is the status that it leaves. */
export function change(
  statements: Statements,
  book: LaneBook,
  { seq, id, lane, entries, failure_group, unique_key }: StandingRow,
  from: TaskStatus,
  after: After,
  now: number,
): void {
  const budget = after.isRetry ? book.retryBudgetOf(lane) : undefined
  const state = budget === undefined ? stateOf(book, lane, after, now) : State.budgeted
  const failedIn = after.failed && book.groups.failed(after.failed, after.ledger, now)
  const group = failedIn ?? after.group
  book.groups.leave(failure_group, from, now)
  book.groups.enter(group, after.status, now)
  statements.change.run(
    state,
    state,
    now,
    after.nextAttemptAt ?? null,
    after.startedAt,
    after.ledger.type === 'append' ? entries + 1 : entries,
    after.attempts,
    after.deferrals,
    after.losses,
    after.isUndecided ? 1 : 0,
    after.previousDelayMs ?? null,
    after.errorClass ?? null,
    after.errorCode ?? null,
    after.errorMessage ?? null,
    group ?? null,
    after.reason ?? null,
    after.result ?? null,
    book.blockedBy(lane, after.status),
    budget ?? null,
    seq,
  )
  writeLedger(statements, seq, lane, entries, after.ledger, failedIn)
  book.move(lane, from, after.status)
  release(statements, book, { id, lane, unique_key }, after.status, now)
}

/** The state of a task that no retry budget holds. */
function stateOf(book: LaneBook, lane: number, after: After, now: number): StateNumber {
  if (after.status !== 'waiting') return State[after.status]
  // In an ordered lane a task that waits for its time stays ready, and so at the head: its lane is held until then.
  if ((after.nextAttemptAt ?? now) > now && !book.isOrdered(lane)) return State.scheduled
  return runsAlone(after) ? State.alone : State.ready
}

/** The row as the rules read it. */
export function standingOf(row: StandingRow): Standing {
  return {
    startedAt: row.started_at,
    changedAt: row.changed_at,
    reason: row.reason ?? undefined,
    attempts: row.attempts,
    deferrals: row.deferrals,
    losses: row.losses,
    previousDelayMs: row.previous_delay ?? undefined,
    errorClass: errorClass(row.error_class),
    errorCode: row.error_code ?? undefined,
    errorMessage: row.error_message ?? undefined,
    group: row.failure_group ?? undefined,
    isUndecided: row.undecided === 1,
    isToBeCancelled: row.cancel_requested === 1,
  }
}
