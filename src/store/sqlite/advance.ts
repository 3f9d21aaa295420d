import { SETTLED, type Settled, type Settlement } from '../contract/claim.js'
import type { AttemptEntry } from '../contract/ledger.js'
import type { Advance } from '../rules/after-settlement.js'
import { answerOf, isFirstAttempt } from '../rules/budgets/attempt-counts.js'
import { failureOf } from '../rules/budgets/gate.js'
import { attempted } from '../rules/ledger-change.js'
import { State } from '../rules/task-state.js'
import type { LaneBook } from './lane-book.js'
import type { LaneIds } from './lane-ids.js'
import { isPlain, writeLedger } from './ledger.js'
import type { Statements } from './statements.js'
import { held, nextClaim, type Place, tokenOf } from './token.js'

/**
 * Moves an item to its next stage, with the same result as `afterSettlement`: two statements for most items. Returns
 * `undefined` if nothing was changed: its token does not hold, or somebody asked to cancel it.
 */
export function advance(
  statements: Statements,
  lanes: LaneIds,
  book: LaneBook,
  settlement: Settlement,
  outcome: Advance,
  place: Place,
  now: number,
): Settled | undefined {
  const { id, attempt } = settlement
  const { to, value, keep, cost } = outcome
  const { seq, lane } = place
  const from = lanes.lane(lane)
  if (from === undefined) return answerWithoutLane(statements, lanes, id, place, to)
  const next = lanes.next(lane, from, to)
  const reached = { seq, lane: next, claim: nextClaim(place.claim) }
  // The lane that the item leaves comes first, since it may be the one that it enters.
  let ranFrom: number | undefined
  if (book.isRamping(lane) || book.isGated(lane)) {
    ranFrom = statements.toAdvance.get(...held(place, id))
    if (ranFrom === undefined) return repeatedAnswer(statements, id, reached)
    if (attempt !== undefined) book.answered(lane, ranFrom)
  }
  book.move(lane, 'running', undefined)
  const isKept = keep && book.isOpenFor(next, seq, cost, now)

  const enter = isKept ? statements.advanceKept : statements.advanceWaiting
  const costs = cost === undefined ? null : JSON.stringify(cost)
  const entries = attempt === undefined ? 0 : 1
  const { changes } = enter.run(next, value, costs, reached.claim, now, now, now, entries, ...held(place, id))
  if (changes === 0) {
    book.move(lane, undefined, 'running')
    return repeatedAnswer(statements, id, reached)
  }
  if (attempt !== undefined) append(statements, seq, lane, from.category, outcome, attempt)
  noteEnd(book, lane, settlement, ranFrom, now)
  book.move(next, undefined, isKept ? 'running' : 'waiting')
  if (!isKept) return SETTLED
  book.charge(next, cost, now)
  return { result: 'kept', token: tokenOf(seq, next, reached.claim), now }
}

/** Tells the lane that an item has left, and the budgets, how its attempt ended. Without one, the lane has borne none. */
function noteEnd(
  book: LaneBook,
  lane: number,
  { outcome, attempt }: Settlement,
  began: number | undefined,
  now: number,
): void {
  if (attempt !== undefined) book.accepted(lane, now)
  if (!book.hasBudgets) return
  const failure = failureOf(attempt?.verdict?.code, attempt?.group?.id)
  const isFirst = isFirstAttempt(outcome, attempt)
  book.told(lane, { answer: answerOf(outcome, attempt), failure, isFirst, began: began ?? 0 }, now)
}

/** As `repeatedAnswer`, where the lane that the item has left is forgotten. */
function answerWithoutLane(
  statements: Statements,
  lanes: LaneIds,
  id: string,
  { seq, claim }: Place,
  to: string,
): Settled | undefined {
  const lane = statements.laneOfTask.get(seq, id)
  if (lane === undefined || lanes.lane(lane)?.category !== to) return undefined
  return repeatedAnswer(statements, id, { seq, lane, claim: nextClaim(claim) })
}

/** The answer to an advance that was made before: the item is at the place that it reached, with the claim of that advance. */
function repeatedAnswer(statements: Statements, id: string, { seq, lane, claim }: Place): Settled | undefined {
  const row = statements.holder.get(seq, id, lane, claim)
  if (row === undefined) return undefined
  const isKept = row.state === State.running
  return isKept ? { result: 'kept', token: tokenOf(seq, lane, claim), now: row.ran_from ?? 0 } : SETTLED
}

function append(
  statements: Statements,
  seq: number,
  lane: number,
  category: string,
  outcome: Advance,
  attempt: AttemptEntry,
): void {
  if (!isPlain(attempt)) {
    const entries = statements.entries.get(seq) ?? 0
    return writeLedger(statements, seq, lane, entries - 1, attempted(outcome, attempt))
  }
  const { startedAt, endedAt, worker, version = null, call = null, release = null } = attempt
  const [from, to] = [Math.round(startedAt), Math.round(endedAt)]
  statements.appendAdvance.run(seq, seq, attempt.attempt, from, to, worker, version, call, release, category || null)
}
