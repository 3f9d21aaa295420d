import { OptionError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/** A stretch of time in which the clocks of a zone are not changed. It may also end where a year ends in UTC. */
export interface Period {
  readonly from: number
  readonly until: number
  /** Wall-clock time minus UTC, in milliseconds. */
  readonly offset: number
}

const DAY = 86_400_000
const SECOND = 1000

const SHOWN = /^(\d+)\/(\d+)\/(\d+), (\d+):(\d+):(\d+)$/

/** A time zone, as the data of Node knows it. A wall-clock time is given as the milliseconds at which UTC shows it. */
export class TimeZone {
  static readonly #zones = new Map<string, TimeZone>()
  readonly #format: Intl.DateTimeFormat
  readonly #years = new Map<number, readonly Period[]>()
  #last: Period | undefined

  /** The zone of an IANA name. Each is made once, since its set-up takes longer than its use. */
  static named(name: string): TimeZone {
    const known = TimeZone.#zones.get(name) ?? new TimeZone(name)
    TimeZone.#zones.set(name, known)
    return known
  }

  constructor(readonly name: string) {
    try {
      // Names alone: newer releases of Node also take offsets, and others would refuse the same schedule.
      if (typeof name !== 'string' || !/^[A-Z]/i.test(name)) throw new RangeError('no name')
      const parts = {
        year: 'numeric',
        month: 'numeric',
        day: 'numeric',
        hour: 'numeric',
        minute: 'numeric',
        second: 'numeric',
      } as const
      this.#format = new Intl.DateTimeFormat('en-US', { ...parts, timeZone: name, hourCycle: 'h23' })
    } catch {
      const advice = "Use a name of the IANA database, such as 'Europe/Berlin', or 'UTC'."
      throw new OptionError('timeZone', `There is no time zone ${quoted(name)}. ${advice}`)
    }
  }

  /** The period that contains an instant. */
  periodAt(at: number): Period {
    if (this.#last !== undefined && this.#last.from <= at && at < this.#last.until) return this.#last
    const periods = this.#yearOf(at)
    const period = periods.find(({ until }) => at < until) ?? periodOf(periods)
    this.#last = period
    return period
  }

  /** The wall-clock time of an instant. */
  wallAt(at: number): number {
    return at + this.periodAt(at).offset
  }

  /**
   * The instant of a wall-clock time that is to happen once: the first, where the clocks are set back over it, and that of
   * the jump, where they are set forward over it. `undefined` if the zone has left out its whole day.
   */
  instantOf(wall: number): number | undefined {
    let period = this.periodAt(wall - DAY)
    for (;;) {
      const at = wall - period.offset
      if (at < period.until) return at
      const next = this.periodAt(period.until)
      if (wall - next.offset < next.from) return next.offset - period.offset < DAY ? next.from : undefined
      period = next
    }
  }

  /** The instants of a span at which the clocks are changed, with the offsets before and after. */
  changes(from: number, until: number): { at: number; before: number; after: number }[] {
    const changes = []
    for (let period = this.periodAt(from); period.until < until; ) {
      const next = this.periodAt(period.until)
      if (next.offset !== period.offset) changes.push({ at: next.from, before: period.offset, after: next.offset })
      period = next
    }
    return changes
  }

  #yearOf(at: number): readonly Period[] {
    const year = new Date(at).getUTCFullYear()
    const known = this.#years.get(year) ?? this.#periodsOf(Date.UTC(year, 0), Date.UTC(year + 1, 0))
    this.#years.set(year, known)
    return known
  }

  /** The periods between two instants. No zone has ever changed its clocks twice on one day. */
  #periodsOf(start: number, end: number): Period[] {
    const periods: Period[] = []
    let from = start
    let offset = this.#offsetAt(start)
    for (let day = start; day < end; day += DAY) {
      const after = this.#offsetAt(day + DAY)
      if (after === offset) continue
      const at = this.#changeBetween(day, day + DAY, offset)
      periods.push({ from, until: at, offset })
      from = at
      offset = after
    }
    if (from < end) periods.push({ from, until: end, offset })
    return periods
  }

  #changeBetween(low: number, high: number, offset: number): number {
    let [before, after] = [low, high]
    while (after - before > SECOND) {
      const middle = Math.floor((before + after) / 2 / SECOND) * SECOND
      if (this.#offsetAt(middle) === offset) before = middle
      else after = middle
    }
    return after
  }

  #offsetAt(at: number): number {
    const [, month, day, year, hour, minute, second] = (SHOWN.exec(this.#format.format(at)) ?? []).map(Number)
    return Date.UTC(year ?? 0, (month ?? 1) - 1, day, hour, minute, second) - at
  }
}

function periodOf(periods: readonly Period[]): Period {
  const last = periods.at(-1)
  if (last === undefined) throw new RangeError('A year has a period.')
  return last
}
