import type { ScheduleSpec, Timetable } from '../store/internal.js'
import { parseCron, type WallTimes } from './cron.js'
import { TimeZone } from './time-zone.js'

/** Schedules that nobody has any more must not fill the memory. */
const MOST_KEPT = 50_000
const DAY = 86_400_000
const SECOND = 1000

/** Says when a schedule is due. */
type Times = Pick<ScheduleSpec, 'times' | 'timeZone'> & Partial<Pick<ScheduleSpec, 'startAt' | 'endAt'>>

/** The timetable of a schedule. Throws an `OptionError` for times that cannot be. */
export function timetable({ times, timeZone, startAt = -Infinity, endAt = Infinity }: Times): Timetable {
  const zone = TimeZone.named(timeZone)
  const all = 'everyMs' in times ? new Interval(times.everyMs, Math.max(0, startAt), zone) : cronTimes(times.cron, zone)
  return startAt === -Infinity && endAt === Infinity ? all : new Bounded(all, startAt, endAt)
}

/** Keeps the timetables that it has made: to parse an expression takes longer than to use it. */
export function timetables(): (times: Times) => Timetable {
  const known = new Map<string, Timetable>()
  return spec => {
    const { times, timeZone, startAt, endAt } = spec
    const key = JSON.stringify([times, timeZone, startAt, endAt])
    const found = known.get(key) ?? timetable(spec)
    if (known.size >= MOST_KEPT) known.clear()
    known.set(key, found)
    return found
  }
}

function cronTimes(cron: string, zone: TimeZone): Timetable {
  const wallTimes = parseCron(cron)
  return wallTimes.isElapsed ? new ElapsedTimes(wallTimes, zone) : new FixedTimes(wallTimes, zone)
}

class Interval implements Timetable {
  readonly #everyMs: number
  readonly #anchor: number
  readonly #zone: TimeZone

  constructor(everyMs: number, anchor: number, zone: TimeZone) {
    this.#everyMs = everyMs
    this.#anchor = anchor
    this.#zone = zone
  }

  next(after: number): number {
    return this.#anchor + (Math.floor((after - this.#anchor) / this.#everyMs) + 1) * this.#everyMs
  }

  previous(before: number): number {
    return this.#anchor + (Math.ceil((before - this.#anchor) / this.#everyMs) - 1) * this.#everyMs
  }

  localTime(slot: number): string {
    return wallText(this.#zone.wallAt(slot))
  }
}

/** The slots of a timetable from a time on, and before another one. */
class Bounded implements Timetable {
  readonly #all: Timetable
  readonly #from: number
  readonly #until: number

  constructor(all: Timetable, from: number, until: number) {
    this.#all = all
    this.#from = from
    this.#until = until
  }

  next(after: number): number | undefined {
    const slot = this.#all.next(Math.max(after, this.#from - 1))
    return slot !== undefined && slot < this.#until ? slot : undefined
  }

  previous(before: number): number | undefined {
    const slot = this.#all.previous(Math.min(before, this.#until))
    return slot !== undefined && slot >= this.#from ? slot : undefined
  }

  localTime(slot: number): string {
    return this.#all.localTime(slot)
  }
}

/** Each moment whose wall-clock time matches: twice in an hour that is repeated, never in one that is left out. */
class ElapsedTimes implements Timetable {
  readonly #times: WallTimes
  readonly #zone: TimeZone

  constructor(times: WallTimes, zone: TimeZone) {
    this.#times = times
    this.#zone = zone
  }

  next(after: number): number | undefined {
    let period = this.#zone.periodAt(after)
    let wall = this.#times.next(after + period.offset)
    while (wall !== undefined && wall - period.offset >= period.until) {
      // No offset differs by more than a day, so nothing matches before that.
      period = this.#zone.periodAt(Math.max(period.until, wall - period.offset - 2 * DAY))
      wall = this.#times.next(period.from + period.offset - SECOND)
    }
    return wall === undefined ? undefined : wall - period.offset
  }

  previous(before: number): number | undefined {
    let period = this.#zone.periodAt(before - 1)
    let wall = this.#times.previous(before + period.offset)
    while (wall !== undefined && wall - period.offset < period.from) {
      period = this.#zone.periodAt(Math.min(period.from - 1, wall - period.offset + 2 * DAY))
      wall = this.#times.previous(period.until + period.offset)
    }
    return wall === undefined ? undefined : wall - period.offset
  }

  localTime(slot: number): string {
    return wallText(this.#zone.wallAt(slot))
  }
}

/** Each wall-clock time once. Times that a jump of the clocks leaves out are all due at the jump. */
class FixedTimes implements Timetable {
  readonly #times: WallTimes
  readonly #zone: TimeZone

  constructor(times: WallTimes, zone: TimeZone) {
    this.#times = times
    this.#zone = zone
  }

  next(after: number): number | undefined {
    return this.#after(after)?.at
  }

  previous(before: number): number | undefined {
    // Where the clocks were set back, times later than the present one are over.
    let wall = this.#times.previous(Math.max(this.#zone.wallAt(before), this.#zone.wallAt(before - DAY) + DAY) + SECOND)
    while (wall !== undefined) {
      const at = this.#zone.instantOf(wall)
      if (at !== undefined && at < before) return at
      wall = this.#times.previous(wall)
    }
    return undefined
  }

  localTime(slot: number): string {
    const found = this.#after(slot - 1)
    return wallText(found?.at === slot ? found.wall : this.#zone.wallAt(slot))
  }

  #after(after: number): { readonly at: number; readonly wall: number } | undefined {
    let wall = this.#times.next(this.#zone.wallAt(after))
    while (wall !== undefined) {
      const at = this.#zone.instantOf(wall)
      if (at !== undefined && at > after) return { at, wall }
      wall = this.#times.next(wall)
    }
    return undefined
  }
}

/** A wall-clock time as text, without a zone. */
export function wallText(wall: number): string {
  return new Date(wall).toISOString().slice(0, 19)
}
