import type { BudgetScope } from '../../contract/budget-store.js'
import type { Room } from '../../contract/claim.js'
import type { Lane } from '../../contract/lane.js'
import { isInRoom, placesIn } from '../room-turns.js'

/** An open gate, as a claim goes by it. */
export interface OpenGate extends BudgetScope {
  /** The id of its budget. */
  readonly id: number
  /** How many of its tasks may start yet. */
  left: number
  /** How many this claim has started. */
  started: number
}

/** Rooms that a claim serves one by one. */
export interface RoomPart {
  readonly room: Room
  /** The room of the request that it is a part of. */
  readonly of: { readonly room: Room; left: number }
  /** The open gates that cover it. */
  readonly gates: readonly OpenGate[]
}

/**
 * Takes the tasks behind open gates out of the rooms of a claim, before any lane is looked at: they are parts of their own,
 * as large as their gates allow. A task belongs to the first part that names it, so the rest of a room has none of them.
 */
export function roomParts(rooms: readonly Room[], gates: readonly OpenGate[]): RoomPart[] {
  // The narrower gates come first, so that each task is in a part that all its gates cover.
  const narrowFirst = [...gates].sort((a, b) => Number(a.category === undefined) - Number(b.category === undefined))
  return rooms.flatMap(room => {
    const of = { room, left: room.limit ?? Infinity }
    const gated = narrowFirst.flatMap(gate => {
      const part = partBehind(gate, room)
      return part === undefined ? [] : [{ room: part, of, gates: gates.filter(other => isCovering(other, gate)) }]
    })
    const kinds = room.kinds.filter(kind => !gates.some(gate => gate.kind === kind && gate.category === undefined))
    const rest = kinds.length === room.kinds.length ? room : { ...room, kinds }
    return [...gated, { room: rest, of, gates: [] }]
  })
}

/** The number of tasks that a part may give when the claim takes this many more. */
export function placesInPart({ of, gates }: RoomPart, left: number): number {
  return placesIn({ kinds: [], limit: Math.min(of.left, ...gates.map(gate => gate.left)) }, left)
}

/** Notes that a part has given tasks. */
export function partGave({ of, gates }: RoomPart, count: number): void {
  of.left -= count
  for (const gate of gates) noteStarts(gate, count)
}

/** Notes that tasks behind a gate have started. */
export function noteStarts(gate: OpenGate, count: number): void {
  gate.left -= count
  gate.started += count
}

/** Whether a gate covers a lane, or all that another gate covers. */
export function isCovering(gate: BudgetScope, { kind, category }: BudgetScope | Lane): boolean {
  return gate.kind === kind && (gate.category === undefined || gate.category === category)
}

function partBehind({ kind, category }: BudgetScope, room: Room): Room | undefined {
  if (!room.kinds.includes(kind)) return undefined
  if (category === undefined) return { kinds: [kind], ...(room.categories && { categories: room.categories }) }
  return isInRoom(room, { kind, category }) ? { kinds: [kind], categories: [category] } : undefined
}
