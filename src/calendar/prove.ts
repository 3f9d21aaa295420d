import type { Timetable } from '../store/internal.js'
import { TimeZone } from './time-zone.js'
import { wallText } from './timetable.js'

/** A local day on which the clocks of a zone change, with the slots that a schedule has on it. */
export interface ChangeDay {
  /** The local date. */
  readonly day: string
  /** When the clocks change. */
  readonly at: number
  /** What they show until then, and from then on. */
  readonly shown: { readonly before: string; readonly after: string }
  /** By how much the clocks are set forward, in milliseconds; below 0 they are set back. */
  readonly forwardMs: number
  /** The slots of this day, with the local time that each is for. */
  readonly slots: readonly { readonly at: number; readonly local: string }[]
}

const DAY = 86_400_000

/** Each day of a year on which the clocks of a zone change, and what a schedule does on it. */
export function changeDays(timetable: Timetable, timeZone: string, year: number): ChangeDay[] {
  const zone = TimeZone.named(timeZone)
  // A local year is a few hours before or after that of UTC.
  const changes = zone.changes(Date.UTC(year, 0) - DAY, Date.UTC(year + 1, 0) + DAY)
  return changes
    .map(({ at, before, after }) => {
      const shown = { before: wallText(at + before), after: wallText(at + after) }
      // The day that is shorter or longer: clocks may be set back at midnight, into the day before.
      const day = (after > before ? shown.before : wallText(at + before - 1)).slice(0, 10)
      return { day, at, shown, forwardMs: after - before, slots: slotsAround(timetable, day, at) }
    })
    .filter(({ day }) => day.startsWith(`${year}-`))
}

function slotsAround(timetable: Timetable, day: string, at: number): { at: number; local: string }[] {
  const slots = []
  for (
    let slot = timetable.next(at - 2 * DAY);
    slot !== undefined && slot < at + 2 * DAY;
    slot = timetable.next(slot)
  ) {
    const local = timetable.localTime(slot)
    if (local.startsWith(day)) slots.push({ at: slot, local })
  }
  return slots
}
