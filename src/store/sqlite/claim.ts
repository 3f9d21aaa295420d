import { oneRoom } from '../rooms.js'
import { errorClass } from '../rows.js'
import type { Claim, ClaimedTask, ClaimRequest } from '../store.js'
import { byOrder, LaneQueue } from './lane-queue.js'
import type { HistoryRow, OpenLaneRow, ReadyRow, Statements } from './statements.js'
import { makeNonce, tokenOf } from './token.js'

/** How many due tasks a claim makes ready at most, so that no claim takes long. The next ones go on with the rest. */
const MOST_MADE_READY = 2000

/** A claim asks few of very many lanes, for some tasks each: to ask a lane costs more than to take a task from it. */
const TASKS_PER_PARTY = 32
const FEWEST_PARTIES = 8

/** The place in the turns that all lanes without a key share. Lanes with a key have their ids. */
const UNKEYED_TURN = 0

const NO_HISTORY: HistoryRow = {
  attempts: 0,
  deferrals: 0,
  losses: 0,
  undecided: 0,
  previous_delay: null,
  error_class: null,
  error_code: null,
  error_message: null,
}

/** Who had the last turn: the next claim goes on after it. Kept by the store, not in the file: turns need not be exact. */
export interface Turns {
  last: number
}

/** Who takes turns: a keyed lane, or all lanes without a key together. */
interface Party {
  readonly turn: number
  readonly queues: readonly LaneQueue[]
}

/** Makes due tasks ready, then takes ready ones from lanes that are open. To be called within a transaction. */
export function claim(statements: Statements, request: ClaimRequest, now: number, turns: Turns): Claim {
  const { worker, leaseMs, limit, isIdle } = request
  const { kinds, categories } = oneRoom(request)
  const madeReady = statements.makeReady.run(now, MOST_MADE_READY).changes
  const allowed = {
    kinds: JSON.stringify(kinds),
    categories: categories === undefined ? null : JSON.stringify(categories),
    now,
  }
  const nonce = makeNonce()
  const tasks: ClaimedTask[] = []
  let taken: number[] = []
  const take = (lane: OpenLaneRow, row: ReadyRow) => {
    const history = row[5] ? (statements.history.get(row[0]) ?? NO_HISTORY) : NO_HISTORY
    tasks.push(claimedTask(lane, row, history, tokenOf(row[0], lane.id, nonce), now))
    taken.push(row[0])
  }
  const startTaken = () => {
    if (taken.length > 0) statements.start.run(worker, nonce, now, now, JSON.stringify(taken))
    taken = []
  }

  let alone = statements.alone.get(allowed)
  if (alone !== undefined && isIdle && limit > 0) {
    const row = statements.readyRow.get(alone.seq)
    if (row !== undefined) take(alone, row)
    startTaken()
    chargeLane(statements, alone, 1, now)
    alone = statements.alone.get(allowed)
  } else {
    // As long as so many have a turn that others may have to wait for theirs.
    for (let isMore = true; isMore && tasks.length < limit; ) {
      const before = tasks.length
      const all = parties(statements, allowed, limit - before, turns.last)
      takeTurns(all, limit - before, turns, take, startTaken)
      startTaken()
      for (const { queues } of all) for (const { lane, taken } of queues) chargeLane(statements, lane, taken, now)
      isMore = all.length >= mostParties(limit - before) && tasks.length > before
    }
    // Its lane may be full by now.
    if (alone !== undefined) alone = statements.alone.get(allowed)
  }

  const until = now + leaseMs
  if (tasks.length > 0) statements.lease.run({ worker, until })
  // A claim that gets nothing writes only when it must: each write wakes the idle workers of other processes.
  else statements.prolong.run({ worker, until, before: now + leaseMs / 2 })
  const nextAt = madeReady === MOST_MADE_READY ? now : nextTime(statements, now)
  return { tasks, now, nextAt, isAloneWaiting: alone !== undefined }
}

/** Those that have something to give and whose turn it is, beginning after the one that had the last. */
function parties(statements: Statements, allowed: { now: number }, limit: number, last: number): Party[] {
  const most = mostParties(limit)
  const lanesIn = (after: number, until: number, most: number) =>
    most > 0 ? statements.openLanes.all({ ...allowed, after, last: until, limit: most }) : []
  const later = lanesIn(last, Number.MAX_SAFE_INTEGER, most)
  const unkeyed = later.length < most ? lanesIn(Number.MIN_SAFE_INTEGER, -1, Number.MAX_SAFE_INTEGER) : []
  const others = later.length + (unkeyed.length > 0 ? 1 : 0)
  const earlier = lanesIn(UNKEYED_TURN, last, most - others)

  // How much each is likely to give: more is fetched where that was too little.
  const share = Math.ceil(limit / (others + earlier.length))
  const party = (lane: OpenLaneRow): Party => ({
    turn: lane.id,
    queues: [new LaneQueue(statements, lane, allowed.now, share)],
  })
  const chunk = unkeyed.length === 1 ? share : Math.ceil(share / unkeyed.length) + 8
  const queues = unkeyed.map(lane => new LaneQueue(statements, lane, allowed.now, chunk))
  const all = [...later.map(party), { turn: UNKEYED_TURN, queues }, ...earlier.map(party)]
  return all.filter(({ queues }) => queues.length > 0)
}

function mostParties(limit: number): number {
  return Math.min(limit, Math.max(FEWEST_PARTIES, Math.ceil(limit / TASKS_PER_PARTY)))
}

/** One task from each in turn, until there are enough or nobody has more. */
function takeTurns(
  parties: Party[],
  limit: number,
  turns: Turns,
  take: (lane: OpenLaneRow, row: ReadyRow) => void,
  startTaken: () => void,
): void {
  let left = limit
  for (let round = parties; round.length > 0 && left > 0; ) {
    const next: Party[] = []
    for (const party of round) {
      if (left === 0) return
      const first = firstOf(party.queues)
      if (first === undefined) continue
      take(first.lane, first.take())
      left--
      if (first.isEmpty && left > 0) {
        startTaken()
        first.refill()
      }
      turns.last = party.turn
      next.push(party)
    }
    round = next
  }
}

/** The queue whose head comes first. */
function firstOf(queues: readonly LaneQueue[]): LaneQueue | undefined {
  let first: LaneQueue | undefined
  for (const queue of queues) {
    if (queue.head === undefined) continue
    if (first?.head === undefined || byOrder(queue.head, first.head) < 0) first = queue
  }
  return first
}

/** Counts what was taken from a lane, and against its limits. */
function chargeLane(statements: Statements, lane: OpenLaneRow, taken: number, now: number): void {
  if (taken === 0) return
  statements.count.run(-taken, taken, 0, 0, 0, 0, lane.id)
  if (lane.per_second === null) return
  statements.takeFromLane.run({ id: lane.id, taken, now, tokens: LaneQueue.tokens(lane, now) })
}

function nextTime(statements: Statements, now: number): number | undefined {
  const times = [statements.nextScheduled.get(), statements.nextHeld.get(now), statements.nextToken.get({ now })]
  const next = Math.min(...times.map(time => time ?? Infinity))
  return next === Infinity ? undefined : Math.max(now, Math.ceil(next))
}

function claimedTask(
  { kind, category, key }: OpenLaneRow,
  [, id, priority, submittedAt, startedAt, , payload]: ReadyRow,
  history: HistoryRow,
  token: string,
  now: number,
): ClaimedTask {
  return {
    id,
    kind,
    category,
    key,
    payload,
    status: 'running',
    priority,
    submittedAt,
    startedAt,
    nextAttemptAt: undefined,
    attempts: history.attempts,
    deferrals: history.deferrals,
    losses: history.losses,
    previousDelayMs: history.previous_delay ?? undefined,
    errorClass: errorClass(history.error_class),
    errorCode: history.error_code ?? undefined,
    errorMessage: history.error_message ?? undefined,
    reason: undefined,
    result: undefined,
    changedAt: now,
    token,
    isUndecided: history.undecided === 1,
  }
}
