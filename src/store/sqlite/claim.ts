import type { Claim, ClaimRequest, Room } from '../contract/claim.js'
import {
  isCovering,
  noteStarts,
  type OpenGate,
  partGave,
  placesInPart,
  roomParts,
} from '../rules/budgets/claim-gates.js'
import { placesIn, type RoomTurns } from '../rules/room-turns.js'
import { BudgetBook } from './budget-book.js'
import { ClaimBatch } from './claim-batch.js'
import { MAX_MADE_READY, makeReady } from './make-ready.js'
import type { ClaimScope } from './statements/claim.js'
import type { Statements } from './statements.js'
import { takeTurns } from './turns.js'

/** Makes due tasks ready, then takes ready ones from open lanes, room by room. Within a transaction. */
export function claim(statements: Statements, request: ClaimRequest, now: number, turns: RoomTurns): Claim {
  const { worker, leaseMs, rooms, limit, isIdle } = request
  const madeReady = makeReady(statements, now)
  const budgets = new BudgetBook(statements)
  const hasMoreRetries = budgets.letRetriesThrough(now)
  const batch = new ClaimBatch(statements, worker, now)
  const gates = budgets.openGates(now)
  if (!(isIdle && takeAlone(statements, batch, rooms, gates, limit)))
    takeByTurns(statements, batch, rooms, gates, limit, turns)

  const openingAt = Math.min(batch.shared.end(), budgets.noteStarts(gates, now), budgets.nextRetryAt(now))
  const until = Math.ceil(now + leaseMs)
  if (batch.tasks.length > 0) statements.lease.run({ worker, now: Math.ceil(now), leaseMs: Math.ceil(leaseMs) })
  // A claim that gets nothing writes only when it must: each write wakes the idle workers of other processes.
  else statements.prolong.run({ worker, until, before: now + leaseMs / 2 })
  return {
    tasks: batch.tasks,
    now,
    nextAt: madeReady === MAX_MADE_READY || hasMoreRetries ? now : nextTime(statements, openingAt, now),
    isAloneWaiting: rooms.some((_, index) => firstAlone(statements, batch, rooms, gates, index) !== undefined),
  }
}

/** Takes tasks room by room. */
function takeByTurns(
  statements: Statements,
  batch: ClaimBatch,
  rooms: readonly Room[],
  gates: readonly OpenGate[],
  limit: number,
  turns: RoomTurns,
): void {
  const parts = roomParts(rooms, gates)
  const partRooms = parts.map(({ room }) => room)
  for (const [index, part] of parts.entries()) {
    const before = batch.tasks.length
    const places = placesInPart(part, limit - before)
    const scope = scopeOf(batch, partRooms, index)
    turns.set(part.room, takeTurns(statements, batch, scope, places, turns.last(part.room)))
    partGave(part, batch.tasks.length - before)
  }
}

/** Takes the first task that must run alone, from the first room that has one. */
function takeAlone(
  statements: Statements,
  batch: ClaimBatch,
  rooms: readonly Room[],
  gates: readonly OpenGate[],
  limit: number,
): boolean {
  for (const [index, room] of rooms.entries()) {
    const lane = placesIn(room, limit) > 0 ? firstAlone(statements, batch, rooms, gates, index) : undefined
    const row = lane && statements.readyRow.get(lane.seq)
    if (lane === undefined || row === undefined) continue
    batch.take(lane, row)
    batch.start()
    batch.charge(lane, 1)
    for (const gate of gates) if (isCovering(gate, lane)) noteStarts(gate, 1)
    return true
  }
  return false
}

/** The first task of a room that must run alone and could start now, with its lane. */
function firstAlone(
  statements: Statements,
  batch: ClaimBatch,
  rooms: readonly Room[],
  gates: readonly OpenGate[],
  index: number,
) {
  if (!batch.isAnyAlone) return undefined
  // A room that is never served, before all others, has the tasks that gates keep back.
  const shut = gates.filter(({ left }) => left <= 0).map(({ kind, category }) => roomOf(kind, category))
  const lane = statements.alone.get(scopeOf(batch, [...shut, ...rooms], shut.length + index))
  if (lane === undefined || batch.shared.canPay(lane, lane.seq)) return lane
  // The limit that it shares is closed now.
  return firstAlone(statements, batch, rooms, gates, index)
}

function roomOf(kind: string, category: string | undefined): Room {
  return { kinds: [kind], ...(category !== undefined && { categories: [category] }) }
}

/** The lanes of a room, as statements take them: those that it names and no earlier room does. */
function scopeOf({ now, shared }: ClaimBatch, rooms: readonly Room[], index: number): ClaimScope {
  const { kinds = [], categories } = rooms[index] ?? {}
  const earlier = rooms.slice(0, index).filter(room => room.kinds.some(kind => kinds.includes(kind)))
  return {
    now,
    kinds: JSON.stringify(kinds),
    categories: categories === undefined ? null : JSON.stringify(categories),
    closed: shared.closed,
    earlier: earlier.length === 0 ? null : JSON.stringify(earlier),
  }
}

/** When there may be more to claim, in whatever room. */
function nextTime(statements: Statements, openingAt: number, now: number): number | undefined {
  const times = [statements.nextScheduled.get(), statements.nextHeld.get(now), statements.nextToken.get({ now })]
  const next = Math.min(openingAt, ...times.map(time => time ?? Infinity))
  return next === Infinity ? undefined : Math.max(now, Math.ceil(next))
}
