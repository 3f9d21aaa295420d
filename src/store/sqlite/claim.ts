import { placesIn, type RoomTurns } from '../room-turns.js'
import type { Claim, ClaimRequest, Room } from '../store.js'
import { ClaimBatch } from './claim-batch.js'
import { type ClaimScope, MAX_MADE_READY, type Statements } from './statements.js'
import { takeTurns } from './turns.js'

/** Makes due tasks ready, then takes ready ones from open lanes, room by room. Within a transaction. */
export function claim(statements: Statements, request: ClaimRequest, now: number, turns: RoomTurns): Claim {
  const { worker, leaseMs, rooms, limit, isIdle } = request
  const madeReady = statements.makeReady.run(now, MAX_MADE_READY).changes
  const batch = new ClaimBatch(statements, worker, now)
  if (!(isIdle && takeAlone(statements, batch, rooms, limit))) {
    for (const [index, room] of rooms.entries()) {
      const places = placesIn(room, limit - batch.tasks.length)
      const lastTurn = takeTurns(statements, batch, scopeOf(batch, rooms, index), places, turns.last(room))
      turns.set(room, lastTurn)
    }
  }

  const sharedAt = batch.shared.end()
  const until = now + leaseMs
  if (batch.tasks.length > 0) statements.lease.run({ worker, until })
  // A claim that gets nothing writes only when it must: each write wakes the idle workers of other processes.
  else statements.prolong.run({ worker, until, before: now + leaseMs / 2 })
  return {
    tasks: batch.tasks,
    now,
    nextAt: madeReady === MAX_MADE_READY ? now : nextTime(statements, sharedAt, now),
    isAloneWaiting: rooms.some((_, index) => firstAlone(statements, batch, rooms, index) !== undefined),
  }
}

/** Takes the first task that must run alone, from the first room that has one. */
function takeAlone(statements: Statements, batch: ClaimBatch, rooms: readonly Room[], limit: number): boolean {
  for (const [index, room] of rooms.entries()) {
    const lane = placesIn(room, limit) > 0 ? firstAlone(statements, batch, rooms, index) : undefined
    const row = lane && statements.readyRow.get(lane.seq)
    if (lane === undefined || row === undefined) continue
    batch.take(lane, row)
    batch.start()
    batch.charge(lane, 1)
    return true
  }
  return false
}

/** The first task of a room that must run alone and could start now, with its lane. */
function firstAlone(statements: Statements, batch: ClaimBatch, rooms: readonly Room[], index: number) {
  const lane = statements.alone.get(scopeOf(batch, rooms, index))
  if (lane === undefined || batch.shared.canPay(lane, lane.seq)) return lane
  // The limit that it shares is closed now.
  return firstAlone(statements, batch, rooms, index)
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
function nextTime(statements: Statements, sharedAt: number, now: number): number | undefined {
  const times = [statements.nextScheduled.get(), statements.nextHeld.get(now), statements.nextToken.get({ now })]
  const next = Math.min(sharedAt, ...times.map(time => time ?? Infinity))
  return next === Infinity ? undefined : Math.max(now, Math.ceil(next))
}
