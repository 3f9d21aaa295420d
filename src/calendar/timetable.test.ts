import { describe, expect, it } from 'vitest'
import { slotsByWalk } from '../../test/minute-walk.js'
import type { Timetable } from '../store/internal.js'
import { TimeZone } from './time-zone.js'
import { timetable } from './timetable.js'

const DAY = 86_400_000
const ZONES = Intl.supportedValuesOf('timeZone')

const cronIn = (timeZone: string, cron: string) => timetable({ times: { cron }, timeZone })

/** The slots of a span, whose end is not in it. */
function slotsOf(table: Timetable, from: number, until: number): number[] {
  const slots: number[] = []
  for (let at = table.next(from - 1); at !== undefined && at < until; at = table.next(at)) slots.push(at)
  return slots
}

/** The same, from the last to the first. */
function slotsBackwards(table: Timetable, from: number, until: number): number[] {
  const slots: number[] = []
  for (let at = table.previous(until); at !== undefined && at >= from; at = table.previous(at)) slots.unshift(at)
  return slots
}

const text = (at: number) => new Date(at).toISOString().slice(0, 16)

/** The slots of a local day, which is looked for in the three days around that date. */
function slotsOn(day: string, cron: string, zone: string): string[] {
  const table = cronIn(zone, cron)
  const noon = Date.parse(day) + DAY / 2
  const slots = slotsOf(table, noon - 2 * DAY, noon + 2 * DAY).filter(at => table.localTime(at).startsWith(day))
  return slots.map(text)
}

describe('on a day on which the clocks change', () => {
  it.each([
    ['2026-10-25', '30 2 * * *', 'Europe/Berlin', ['2026-10-25T00:30']],
    ['2027-03-28', '30 2 * * *', 'Europe/Berlin', ['2027-03-28T01:00']],
    ['2027-03-14', '30 2 * * *', 'America/New_York', ['2027-03-14T07:00']],
    ['2027-04-30', '0 0 * * *', 'Africa/Cairo', ['2027-04-29T22:00']],
    ['2027-03-28', '0 0 * * *', 'Asia/Beirut', ['2027-03-27T22:00']],
    ['2027-03-14', '0 0 * * *', 'America/Havana', ['2027-03-14T05:00']],
    ['2026-09-06', '0 0 * * *', 'America/Santiago', ['2026-09-06T04:00']],
    [
      '2026-10-25',
      '*/30 2 * * *',
      'Europe/Berlin',
      ['00:00', '00:30', '01:00', '01:30'].map(time => `2026-10-25T${time}`),
    ],
    ['2027-03-28', '0 2,3 * * *', 'Europe/Berlin', ['2027-03-28T01:00']],
    ['2026-10-04', '15 2 * * *', 'Australia/Lord_Howe', ['2026-10-03T15:30']],
    // Lists and ranges name fixed times too: none of them is lost, and none runs twice.
    ['2027-03-28', '0 2,14 * * *', 'Europe/Berlin', ['2027-03-28T01:00', '2027-03-28T12:00']],
    ['2026-10-25', '0 2,14 * * *', 'Europe/Berlin', ['2026-10-25T00:00', '2026-10-25T13:00']],
    ['2027-03-28', '15,45 2 * * *', 'Europe/Berlin', ['2027-03-28T01:00']],
    ['2026-10-25', '0 1-3 * * *', 'Europe/Berlin', ['2026-10-24T23:00', '2026-10-25T00:00', '2026-10-25T02:00']],
    // With seconds.
    ['2027-03-28', '0 30 2 * * *', 'Europe/Berlin', ['2027-03-28T01:00']],
    ['2026-10-25', '0 30 2 * * *', 'Europe/Berlin', ['2026-10-25T00:30']],
    ['2026-10-25', '@daily', 'Europe/Berlin', ['2026-10-24T22:00']],
  ])('%s: %s in %s', (day, cron, zone, slots) => {
    expect(slotsOn(day, cron, zone)).toEqual(slots)
  })

  it.each(['0 * * * *', '0 0-23 * * *', '@hourly'])('%s runs 25 times and 23 times', cron => {
    expect(slotsOn('2026-10-25', cron, 'Europe/Berlin')).toHaveLength(25)
    expect(slotsOn('2027-03-28', cron, 'Europe/Berlin')).toHaveLength(23)
  })

  it('a day that a zone has left out has no slots, and those of the days around it are there', () => {
    const around = (cron: string) => {
      const table = cronIn('Pacific/Apia', cron)
      return slotsOf(table, Date.parse('2011-12-29T10:00Z'), Date.parse('2012-01-01T10:00Z')).map(
        table.localTime,
        table,
      )
    }
    expect(around('0 0 * * *')).toEqual(['2011-12-29', '2011-12-31', '2012-01-01'].map(day => `${day}T00:00:00`))
    expect(around('0 12 * * *')).toEqual(['2011-12-29', '2011-12-31', '2012-01-01'].map(day => `${day}T12:00:00`))
    expect(around('0 12 30 * *')).toEqual([])
  })

  it('a slot names the local time that it is for, even if the clocks never showed it', () => {
    const table = cronIn('Europe/Berlin', '30 2 * * *')
    expect(table.localTime(Date.parse('2027-03-28T01:00Z'))).toBe('2027-03-28T02:30:00')
    expect(table.localTime(Date.parse('2026-10-25T00:30Z'))).toBe('2026-10-25T02:30:00')
    const across = cronIn('America/Nuuk', '30 23 * * *')
    const [jump] = TimeZone.named('America/Nuuk').changes(Date.parse('2027-03-01'), Date.parse('2027-04-30'))
    expect(across.localTime(jump?.at ?? 0)).toBe('2027-03-27T23:30:00')
  })
})

describe('in every zone whose clocks jump at midnight', () => {
  const from = Date.UTC(2020, 0)
  const until = Date.UTC(2031, 0)
  const isAcrossMidnight = ({ at, before, after }: { at: number; before: number; after: number }) =>
    after > before && (at + before) % DAY === 0
  const zones = ZONES.filter(name => TimeZone.named(name).changes(from, until).some(isAcrossMidnight))

  it('there are such zones', () => {
    expect(zones).toEqual(expect.arrayContaining(['Africa/Cairo', 'America/Havana', 'America/Santiago', 'Asia/Beirut']))
  })

  it.each(zones)('%s: midnight comes once on every day of eleven years', name => {
    const table = cronIn(name, '0 0 * * *')
    const days = slotsOf(table, from, until).map(at => table.localTime(at))
    const first = Date.parse(`${days[0]}Z`)
    expect(days).toEqual(days.map((_, n) => new Date(first + n * DAY).toISOString().slice(0, 19)))
    expect(days.length).toBeGreaterThanOrEqual(4017)
  })
})

/** A random number generator with a seed, so that a failure can be repeated. */
function randomOf(seed: number): (below: number) => number {
  let state = seed
  return below => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

/** Expressions of many forms, most of them due around the hours in which clocks change. */
function someCron(random: (below: number) => number): string {
  const minute = [
    () => `${random(60)}`,
    () => `${random(30)},${30 + random(30)}`,
    () => '0',
    () => '*/20',
    () => '15-45/15',
  ][random(5)]
  const hour = [
    () => `${random(5)}`,
    () => `${random(24)}`,
    () => '0',
    () => '*',
    () => '*/3',
    () => '1-3',
    () => `2,${3 + random(20)}`,
    () => '23',
  ][random(8)]
  const day = ['*', '*', '*', '1-14', '*/2', '1,15'][random(6)]
  const month = ['*', '*', '*', '3,4,9-11'][random(4)]
  const weekday = ['*', '*', '0', '1-5', '6,7'][random(5)]
  return `${minute?.()} ${hour?.()} ${day} ${month} ${weekday}`
}

describe('a year of 200 schedules in all zones', () => {
  const from = Date.UTC(2027, 0)
  const until = Date.UTC(2028, 0)
  const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 2 ** 31))
  const random = randomOf(seed)
  const crons = Array.from({ length: 200 }, () => someCron(random))

  it(`has the slots that a walk over all minutes finds (SEED=${seed})`, { timeout: 600_000 }, () => {
    const differences = ZONES.flatMap((zone, n) => {
      const cron = crons[n % crons.length] ?? ''
      const found = slotsOf(cronIn(zone, cron), from, until)
      const expected = slotsByWalk(cron, zone, from, until)
      const at = expected.findIndex((slot, index) => slot !== found[index])
      if (at === -1 && found.length === expected.length) return []
      return [{ zone, cron, found: text(found[at] ?? 0), expected: text(expected[at] ?? 0) }]
    })
    expect(differences).toEqual([])
  })

  it(`has the same slots backwards around each change of the clocks (SEED=${seed})`, () => {
    const differing = ZONES.flatMap((zone, n) => {
      const table = cronIn(zone, crons[n % crons.length] ?? '')
      const spans = TimeZone.named(zone).changes(from, until)
      const isSame = ({ at }: { at: number }) =>
        `${slotsBackwards(table, at - 2 * DAY, at + 2 * DAY)}` === `${slotsOf(table, at - 2 * DAY, at + 2 * DAY)}`
      return spans.every(isSame) ? [] : [zone]
    })
    expect(differing).toEqual([])
  })
})

describe('an interval', () => {
  const anchor = Date.parse('2026-01-05T06:00:00Z')
  const weekly = timetable({ times: { everyMs: 7 * DAY }, timeZone: 'UTC', startAt: anchor })

  it('counts from its anchor, whenever the process starts', () => {
    expect(weekly.next(anchor + 1)).toBe(anchor + 7 * DAY)
    expect(weekly.next(anchor + 6 * DAY)).toBe(anchor + 7 * DAY)
    expect(weekly.next(anchor + 7 * DAY)).toBe(anchor + 14 * DAY)
    expect(weekly.next(0)).toBe(anchor)
  })

  it('has the same slots backwards', () => {
    expect(weekly.previous(anchor + 7 * DAY)).toBe(anchor)
    expect(weekly.previous(anchor + 7 * DAY + 1)).toBe(anchor + 7 * DAY)
  })

  it('without a start, counts from the epoch', () => {
    const hourly = timetable({ times: { everyMs: 3_600_000 }, timeZone: 'Asia/Kolkata' })
    expect(text(hourly.next(Date.parse('2026-01-05T06:20:00Z')) ?? 0)).toBe('2026-01-05T07:00')
  })
})

describe('a start and an end', () => {
  const startAt = Date.parse('2026-01-05T06:00:00Z')
  const endAt = Date.parse('2026-01-07T06:00:00Z')
  const table = timetable({ times: { cron: '0 6 * * *' }, timeZone: 'UTC', startAt, endAt })

  it('bound the slots: the start may be one, the end may not', () => {
    expect(slotsOf(table, 0, Infinity)).toEqual([startAt, startAt + DAY])
    expect(slotsBackwards(table, 0, Date.UTC(2100, 0))).toEqual([startAt, startAt + DAY])
  })
})
