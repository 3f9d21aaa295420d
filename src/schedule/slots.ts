import { type ChangeDay, changeDays, timetable } from '../calendar/internal.js'
import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import { type Moment, toTime } from '../task/internal.js'

import type { Schedule } from './schedule.js'

/** Options of `nextSlots`. @inline */
export interface NextSlotsOptions {
  /** How many. Default 1. */
  readonly count?: number | undefined
  /** The time after which they are. Default: now. */
  readonly after?: Moment | undefined
}

/** The next slots of a schedule. There are fewer where it ends. */
export function nextSlots({ spec }: Pick<Schedule, 'spec'>, { count = 1, after }: NextSlotsOptions = {}): Date[] {
  const table = timetable(spec)
  const slots: Date[] = []
  let at = table.next(toTime('after', after) ?? Date.now())
  while (at !== undefined && slots.length < count) {
    slots.push(new Date(at))
    at = table.next(at)
  }
  return slots
}

/** Each day of a year on which the clocks of the schedule's time zone change, with the slots on it. */
export function proveSchedule({ spec }: Pick<Schedule, 'spec'>, year: number): ChangeDay[] {
  if (!(Number.isInteger(year) && year >= 1970 && year <= 9999)) {
    throw new OptionError('year', `'year' must be a year such as 2027, got ${quoted(year)}.`)
  }
  return changeDays(timetable(spec), spec.timeZone, year)
}
