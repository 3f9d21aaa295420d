import type { Room } from '../contract/claim.js'
import type { Lane } from '../contract/lane.js'

/** Bounds the memory that rooms take. With more of them, turns may start from the beginning now and then. */
const MAX_ROOMS = 1000

/**
 * The last turn of each room. With one for all rooms, every claim would start the lanes of a room from the beginning, and
 * the later ones would starve. Kept by the process, not by the store: turns need not be exact.
 */
export class RoomTurns {
  readonly #turns = new Map<string, number>()

  /** The last turn of a room; 0 if it had none. */
  last(room: Room): number {
    return this.#turns.get(nameOf(room)) ?? 0
  }

  set(room: Room, turn: number): void {
    const name = nameOf(room)
    if (this.#turns.size >= MAX_ROOMS && !this.#turns.has(name)) this.#turns.clear()
    this.#turns.set(name, turn)
  }
}

/** Whether a room names the tasks of a lane. */
export function isInRoom({ kinds, categories }: Room, { kind, category }: Omit<Lane, 'key'>): boolean {
  return kinds.includes(kind) && (categories === undefined || categories.includes(category))
}

/** The number of tasks that a room may give when the claim takes this many more. */
export function placesIn(room: Room, left: number): number {
  return Math.max(0, Math.min(room.limit ?? left, left))
}

function nameOf({ kinds, categories }: Room): string {
  return JSON.stringify([kinds, categories])
}
