import type { Timetable } from '../../contract/schedule-store.js'

/** At most so many slots of a schedule end one by one at a time. */
export const MAX_SLOTS = 1000

/** Slots that are due, oldest first. */
export interface DueSlots {
  readonly slots: readonly number[]
  /** The first and the last of those before them, where too many are due. */
  readonly earlier?: { readonly slot: number; readonly until: number } | undefined
}

/** The slots behind a cursor, up to a time. Its cost does not depend on how many there are. */
export function dueSlots(timetable: Timetable, cursor: number, until: number): DueSlots {
  const first = timetable.next(cursor)
  if (first === undefined || first > until) return { slots: [] }
  const second = timetable.next(first)
  if (second === undefined || second > until) return { slots: [first] }
  const slots: number[] = []
  let slot = timetable.previous(until + 1)
  while (slot !== undefined && slot > cursor && slots.length < MAX_SLOTS) {
    slots.push(slot)
    slot = timetable.previous(slot)
  }
  slots.reverse()
  return slot === undefined || slot <= cursor ? { slots } : { slots, earlier: { slot: first, until: slot } }
}
