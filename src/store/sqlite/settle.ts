import {
  type AttemptEntry,
  type LedgerRow,
  type Outcome,
  SETTLED,
  type Settled,
  type Settlement,
  STALE,
} from '../store.js'
import { State, type StateNumber, statusOf } from '../task-state.js'
import { LaneBook } from './lane-book.js'
import type { HistoryRow, RunningRow, Statements } from './statements.js'
import { type Place, placeOf } from './token.js'

/** What the row of a task that ran is changed to. */
export interface Next extends Mutable<HistoryRow> {
  state: StateNumber
  next_at: number | null
  entries: number
  reason: string | null
  result: string | null
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] }

const NOTHING_HAPPENED = {
  attempts: 0,
  deferrals: 0,
  losses: 0,
  undecided: 0,
  previous_delay: null,
  error_class: null,
  error_code: null,
  error_message: null,
} as const

/** What became of settlements, and whether there may be something new to claim. */
export interface SettledAll {
  readonly results: Settled[]
  readonly isRoomMade: boolean
}

/** Applies outcomes and writes the ledger, each where the token still holds. To be called within a transaction. */
export function settle(statements: Statements, settlements: readonly Settlement[], now: number): SettledAll {
  const book = new LaneBook(statements)
  const results = settlements.map((settlement): Settled => {
    const place = placeOf(settlement.token)
    const isSettled = place !== undefined && settleOne(statements, book, settlement, place, now)
    return isSettled ? SETTLED : STALE
  })
  book.write()
  const isRoomMade = book.isAnyBounded || settlements.some(({ outcome }) => isWaitingAgain(outcome))
  return { results, isRoomMade }
}

/** Whether an outcome makes its task wait again. */
function isWaitingAgain({ type }: Outcome): boolean {
  return type === 'retry' || type === 'deferred' || type === 'later' || type === 'released'
}

function settleOne(
  statements: Statements,
  book: LaneBook,
  settlement: Settlement,
  { seq, lane }: Place,
  now: number,
): boolean {
  const { id, token, outcome, attempt } = settlement
  if (outcome.type === 'succeeded' && attempt !== undefined && isPlain(attempt)) {
    const ranFrom = book.isRamping(lane) ? statements.ranFrom.get(seq, token) : undefined
    const { startedAt, endedAt, worker } = attempt
    const result = outcome.result ?? null
    const { changes } = statements.succeed.run(
      now,
      result,
      Math.round(startedAt),
      Math.round(endedAt),
      attempt.attempt,
      worker,
      seq,
      token,
      id,
    )
    if (changes === 0) return false
    book.move(lane, 'running', 'succeeded')
    if (ranFrom !== undefined) book.ended(lane, ranFrom)
    return true
  }
  const row = statements.running.get(seq, token, id)
  if (row === undefined) return false
  apply(statements, book, row, settlement, now)
  return true
}

/** A success of which there is no more to say than when and who: it is kept in the task's own row. */
function isPlain({ verdict, error, random, policy }: AttemptEntry): boolean {
  return verdict === undefined && error === undefined && random === undefined && policy === undefined
}

function apply(statements: Statements, book: LaneBook, row: RunningRow, settlement: Settlement, now: number): void {
  const { attempt } = settlement
  // Somebody wanted it to end: it does where it would have waited again.
  const isCancelled = row.cancel_requested === 1 && isWaitingAgain(settlement.outcome)
  const outcome: Outcome = isCancelled ? { type: 'cancelled' } : settlement.outcome
  const isDecision = row.undecided === 1 && (settlement.outcome.type === 'retry' || settlement.outcome.type === 'dead')
  const isRun = attempt !== undefined && !isDecision && settlement.outcome.type !== 'released'

  if (isRun && outcome.type !== 'released') {
    record(statements, row.seq, row.entries + 1, attempt, outcome)
  } else if (isDecision) {
    statements.tell.run(...decisionColumns(outcome), ...factColumns(attempt), row.seq, row.entries)
  }
  const next = nextOf(row, outcome, attempt, isRun, now)
  if (next.state === State.scheduled && book.isOrdered(row.lane)) {
    book.holdHead(row.lane, next.next_at ?? now)
    next.state = readyState(next)
  }
  write(statements, book, row, next, now)
  if (outcome.type === 'deferred') book.hold(row.lane, Math.ceil(now + outcome.delayMs))
  else if (outcome.type !== 'released' && outcome.type !== 'cancelled') book.ended(row.lane, row.ran_from)
}

function nextOf(
  row: RunningRow,
  outcome: Outcome,
  attempt: AttemptEntry | undefined,
  isRun: boolean,
  now: number,
): Next {
  if (outcome.type === 'released') return released(row, now)
  const next = unchanged(row)
  next.undecided = 0
  if (isRun) next.entries++
  if (attempt?.verdict !== undefined) {
    next.error_class = attempt.verdict.class
    next.error_code = attempt.verdict.code
    next.error_message = attempt.error ?? null
  }
  // biome-ignore lint/nursery/useExhaustiveSwitchCases: `released` has returned above.
  switch (outcome.type) {
    case 'succeeded':
      return Object.assign(next, NOTHING_HAPPENED, { state: State.succeeded, result: outcome.result ?? null })
    case 'skipped':
      return Object.assign(next, NOTHING_HAPPENED, { state: State.skipped, reason: outcome.reason })
    case 'dead':
      if (isRun) next.attempts++
      next.state = State.dead
      next.reason = outcome.reason
      return next
    case 'cancelled':
      next.state = State.cancelled
      return next
    case 'retry':
      if (isRun) next.attempts++
      if (outcome.isBackoff) next.previous_delay = Math.round(outcome.delayMs)
      return waiting(next, now, outcome.delayMs)
    case 'deferred':
      next.deferrals++
      return waiting(next, now, outcome.delayMs)
    case 'later':
      return waiting(next, now, outcome.delayMs)
  }
}

/** As if it had not been claimed; what nobody has decided stays undecided. */
export function released(row: RunningRow, now: number): Next {
  const next = unchanged(row)
  if (row.cancel_requested === 0) return waiting(next, now)
  next.state = State.cancelled
  return next
}

/** Waiting until a delay is over, alone if it has cost a worker its life. */
export function waiting(next: Next, now: number, delayMs = 0): Next {
  next.next_at = Math.ceil(now + Math.max(0, delayMs))
  next.state = next.next_at > now ? State.scheduled : readyState(next)
  return next
}

function readyState({ losses }: Next): StateNumber {
  return losses > 0 ? State.alone : State.ready
}

function unchanged(row: RunningRow): Next {
  return {
    state: State.running,
    next_at: null,
    entries: row.entries,
    attempts: row.attempts,
    deferrals: row.deferrals,
    losses: row.losses,
    undecided: row.undecided,
    previous_delay: row.previous_delay,
    error_class: row.error_class,
    error_code: row.error_code,
    error_message: row.error_message,
    reason: null,
    result: null,
  }
}

/** Writes what becomes of a task that ran. */
export function write(
  statements: Statements,
  book: LaneBook,
  { seq, lane }: RunningRow,
  next: Next,
  now: number,
): void {
  statements.settle.run(
    next.state,
    now,
    next.next_at,
    next.entries,
    next.attempts,
    next.deferrals,
    next.losses,
    next.undecided,
    next.previous_delay,
    next.error_class,
    next.error_code,
    next.error_message,
    next.reason,
    next.result,
    seq,
  )
  book.move(lane, 'running', statusOf(next.state))
}

/** Writes a row of the ledger. */
export function record(
  statements: Statements,
  task: number,
  sequence: number,
  attempt: AttemptEntry,
  outcome: Exclude<Outcome, { type: 'released' }> | { readonly type: LedgerRow['outcome']; readonly reason?: string },
): void {
  statements.record.run(
    task,
    sequence,
    attempt.attempt,
    Math.round(attempt.startedAt),
    Math.round(attempt.endedAt),
    attempt.worker,
    outcome.type,
    ...decisionColumns(outcome),
    ...factColumns(attempt),
  )
}

/** The columns `delay_ms` and `reason`. */
function decisionColumns(outcome: Outcome | { readonly type: LedgerRow['outcome']; readonly reason?: string }) {
  const delayMs = 'delayMs' in outcome ? outcome.delayMs : undefined
  const reason = 'reason' in outcome ? outcome.reason : undefined
  return [roundOrNull(delayMs), reason ?? null]
}

/** The columns from `error_class` to `policy`. */
function factColumns({ verdict, error, random, policy }: Partial<AttemptEntry> = {}) {
  const retryAfterMs = verdict?.class === 'rate_limited' ? verdict.retryAfterMs : undefined
  const facts = [error ?? null, random ?? null, policy ?? null]
  return [verdict?.class ?? null, verdict?.code ?? null, roundOrNull(retryAfterMs), ...facts]
}

function roundOrNull(value: number | undefined): number | null {
  return value === undefined ? null : Math.round(value)
}
