import type { ClaimBatch } from './claim-batch.js'
import { byOrder, LaneQueue } from './lane-queue.js'
import type { SharedClaim } from './shared-claim.js'
import type { ClaimScope, OpenLaneRow } from './statements/claim.js'
import type { Statements } from './statements.js'

/** A claim asks few of very many lanes, for some tasks each: asking a lane costs more than taking a task from it. */
const TASKS_PER_PARTY = 32
const MIN_PARTIES = 8

/** The turn that all lanes without a key share. The turn of a lane with a key is its id, which is above 0. */
const UNKEYED_TURN = 0

/** One that takes turns: a lane with a key, or all lanes without a key together. */
interface Party {
  readonly turn: number
  readonly queues: readonly LaneQueue[]
}

/** Takes up to `limit` tasks from the lanes of a room, in turns that begin after the last one. Returns the new last turn. */
export function takeTurns(
  statements: Statements,
  batch: ClaimBatch,
  scope: ClaimScope,
  limit: number,
  lastTurn: number,
): number {
  let turn = lastTurn
  let left = limit
  // While a round has all the parties it may have, others may still wait for their turn.
  for (let isMore = true; isMore && left > 0; ) {
    const before = batch.tasks.length
    const { closed, closedCount } = batch.shared
    const parties = partiesOf(statements, { ...scope, closed }, left, turn)
    turn = takeRounds(parties, left, batch) ?? turn
    batch.start()
    for (const { queues } of parties) for (const { lane, taken } of queues) batch.charge(lane, taken)
    const taken = batch.tasks.length - before
    isMore = parties.length >= maxParties(left) && (taken > 0 || batch.shared.closedCount > closedCount)
    left -= taken
  }
  return turn
}

/** The parties that have tasks, in the order of their turns, beginning after the last one. */
function partiesOf(statements: Statements, scope: ClaimScope, limit: number, last: number): Party[] {
  const max = maxParties(limit)
  const lanesIn = (after: number, until: number, count: number) => {
    // Mostly only one sort of lanes is busy. Asking for the first one costs a tenth of asking for open ones.
    const first = count > 0 ? (statements.firstBusy.get(after, until) ?? null) : null
    return first === null ? [] : statements.openLanes.all({ ...scope, first, last: until, limit: count })
  }
  const later = lanesIn(last, Number.MAX_SAFE_INTEGER, max)
  const unkeyed = later.length < max ? lanesIn(Number.MIN_SAFE_INTEGER, -1, Number.MAX_SAFE_INTEGER) : []
  const others = later.length + (unkeyed.length > 0 ? 1 : 0)
  const earlier = lanesIn(UNKEYED_TURN, last, max - others)

  // The number of tasks that each is likely to give. A queue fetches more where that was too little.
  const share = Math.ceil(limit / (others + earlier.length))
  const party = (lane: OpenLaneRow): Party => ({
    turn: lane.id,
    queues: [new LaneQueue(statements, lane, scope.now, share)],
  })
  const chunk = unkeyed.length === 1 ? share : Math.ceil(share / unkeyed.length) + 8
  const queues = unkeyed.map(lane => new LaneQueue(statements, lane, scope.now, chunk))
  const all = [...later.map(party), { turn: UNKEYED_TURN, queues }, ...earlier.map(party)]
  return all.filter(({ queues }) => queues.length > 0)
}

function maxParties(limit: number): number {
  return Math.min(limit, Math.max(MIN_PARTIES, Math.ceil(limit / TASKS_PER_PARTY)))
}

/** Takes one task from each party in turn, until there are enough or nobody has more. Returns the last turn, if any. */
function takeRounds(parties: readonly Party[], limit: number, batch: ClaimBatch): number | undefined {
  let left = limit
  let lastTurn: number | undefined
  for (let round = parties; round.length > 0; ) {
    const next: Party[] = []
    for (const party of round) {
      if (left === 0) return lastTurn
      const first = firstOf(party.queues, batch.shared)
      if (first === undefined) continue
      batch.take(first.lane, first.take())
      left--
      if (first.isEmpty && left > 0) {
        batch.start()
        first.refill()
      }
      lastTurn = party.turn
      next.push(party)
    }
    round = next
  }
  return lastTurn
}

/** The queue whose head comes first and may start. */
function firstOf(queues: readonly LaneQueue[], shared: SharedClaim): LaneQueue | undefined {
  let first: LaneQueue | undefined
  for (const queue of queues) {
    if (queue.head === undefined || shared.isClosed(queue.lane)) continue
    if (first?.head === undefined || byOrder(queue.head, first.head) < 0) first = queue
  }
  if (first?.head === undefined || shared.canPay(first.lane, first.head[0])) return first
  // The limit that it shares is closed now.
  return firstOf(queues, shared)
}
