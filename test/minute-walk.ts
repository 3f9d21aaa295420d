// For the tests of timetables: when a schedule is due, found by a walk over all minutes of a span. It shares nothing with
// the timetables that it checks: neither the parser, nor the arithmetic of time zones.

const MINUTE = 60_000

// Times are whole minutes since the epoch: small integers, which make a year in all zones a matter of seconds.
const QUARTER = 15
const DAY = 24 * 60

/**
 * Visits all minutes of a span in a zone, with the local time as the minute at which UTC shows it. Offsets are asked once
 * a day, since to ask costs more than all the rest, and for each quarter of an hour of the days on which they change.
 */
function walk(zone: string, from: number, until: number, visit: (at: number, wall: number) => void): void {
  const format = new Intl.DateTimeFormat('en-GB', { timeZone: zone, dateStyle: 'short', timeStyle: 'short' })
  const offsetAt = (at: number) => {
    const text = format.format(at * MINUTE)
    const [day = 0, month = 0, year = 0, hour = 0, minute = 0] = (text.match(/\d+/g) ?? []).map(Number)
    return Date.UTC(year, month - 1, day, hour, minute) / MINUTE - at
  }
  let offset = offsetAt(from)
  for (let day = from; day < until; day += DAY) {
    const after = offsetAt(day + DAY)
    for (let at = day; at < day + DAY; at++) {
      if (after !== offset && at % QUARTER === 0) offset = offsetAt(at)
      visit(at, at + offset)
    }
    offset = after
  }
}

/** The values that a field allows: numbers, `*`, ranges, lists and steps. */
function valuesOf(field: string, min: number, max: number): boolean[] {
  const allowed = new Array<boolean>(max + 1).fill(false)
  for (const part of field.split(',')) {
    const [range = '', step = '1'] = part.split('/')
    const [low = '', high = low] = range.split('-')
    const [first, last] = range === '*' ? [min, max] : [Number(low), Number(high)]
    for (let value = first; value <= last; value += Number(step)) allowed[value] = true
  }
  return allowed
}

/** Whether a local time matches an expression of five fields. */
function matcherOf(cron: string): (wall: number) => boolean {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = cron.split(' ')
  const [minutesOf, hours] = [valuesOf(minute, 0, 59), valuesOf(hour, 0, 23)]
  const [days, months, weekdays] = [valuesOf(day, 1, 31), valuesOf(month, 1, 12), valuesOf(weekday, 0, 7)]
  const areBothRestricted = day !== '*' && weekday !== '*'
  return wall => {
    if (!(minutesOf[wall % 60] && hours[Math.floor(wall / 60) % 24])) return false
    const date = new Date(wall * MINUTE)
    if (!months[date.getUTCMonth() + 1]) return false
    const [isDay, isWeekday] = [
      days[date.getUTCDate()],
      weekdays[date.getUTCDay()] || (date.getUTCDay() === 0 && weekdays[7]),
    ]
    return Boolean(areBothRestricted ? isDay || isWeekday : isDay && isWeekday)
  }
}

/** The slots of an expression of five fields, found among the minutes of a span. Its end is not in it. */
export function slotsByWalk(cron: string, zone: string, from: number, until: number): number[] {
  const matches = matcherOf(cron)
  const [first, end] = [from / MINUTE, until / MINUTE]
  const slots: number[] = []
  if (isElapsed(cron)) {
    walk(zone, first, end, (at, wall) => {
      if (matches(wall)) slots.push(at * MINUTE)
    })
    return slots
  }
  // Of the day before the span only the local times matter, which do not come again.
  let latest = Number.NEGATIVE_INFINITY
  walk(zone, first - DAY, end, (at, wall) => {
    if (wall <= latest) return
    // Local times that the clocks have left out are due now, unless the whole day never was; repeated ones have been.
    let isDue = matches(wall)
    if (wall - latest <= DAY) for (let lost = latest + 1; lost < wall; lost++) isDue ||= matches(lost)
    if (isDue && at >= first) slots.push(at * MINUTE)
    latest = wall
  })
  return slots
}

function isElapsed(cron: string): boolean {
  return cron
    .split(' ')
    .slice(0, 2)
    .some(field => field.includes('*'))
}
