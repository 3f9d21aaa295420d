import { describe, expect, it } from 'vitest'
import { OptionError } from '../policy/index.js'
import { declareTask } from '../task/index.js'
import { nextSlots, proveSchedule, type Schedule, schedule } from './index.js'

const report = declareTask<{ region: string } | null>('report')

/** Whatever a user without types may pass. */
const scheduleOf = (options: object, name = 'nightly') =>
  schedule(name, { task: report, ...options } as Parameters<typeof schedule<unknown>>[1])

function problemOf(make: () => Schedule): { option: string; message: string } {
  try {
    make()
  } catch (error) {
    if (error instanceof OptionError) return { option: error.option, message: error.message }
    throw error
  }
  throw new Error('It was accepted.')
}

describe('schedule()', () => {
  it('makes plain data of its options, with all defaults', () => {
    const nightly = schedule('nightly', {
      cron: '30 2 * * *',
      timeZone: 'Europe/Berlin',
      task: report,
      payload: { region: 'eu' },
      catchUpWithin: '6h',
      startAt: '2026-01-01',
    })
    expect(JSON.parse(JSON.stringify(nightly.spec))).toEqual({
      name: 'nightly',
      times: { cron: '30 2 * * *' },
      timeZone: 'Europe/Berlin',
      startAt: Date.UTC(2026, 0),
      task: { kind: 'report', payload: '{"region":"eu"}' },
      catchUp: 'last',
      catchUpWithinMs: 21_600_000,
      overlap: 'allow',
      spreadMs: 0,
    })
  })

  it.each([
    ['', /it is empty/],
    ['   ', /it is empty/],
    ['* * *', /it has 3 fields/],
    ['* * * * * * 2027', /it has 7 fields/],
    ['0 0 31 2 *', /it never occurs/],
    ['0 0 30 2 *', /it never occurs/],
    ['0 0 31 4,6 *', /it never occurs/],
    ['60 * * * *', /minute: 60/],
    ['* 24 * * *', /hour: 24/],
    ['0 0 0 * *', /day/],
    ['0 0 32 * *', /day/],
    ['0 0 * 13 *', /month/],
    ['0 0 * * 8', /dayOfWeek: 8/],
    ['5-1 * * * *', /larger/],
    ['*/0 * * * *', /illegal stepping/],
    ['*/99 * * * *', /step/],
    ['1/5 * * * *', /step/],
    ['0 ? * * *', /'\*' in place of '\?'/],
    ['0 0 * * H', /./],
    ['0 0 1 * +1', /a field consists of/],
    ['1.5 * * * *', /a field consists of/],
    ['@reboot', /@hourly/],
    ['@every 5m', /@hourly/],
    ['2027-01-01T00:00:00', /1 field/],
    [5, /./],
    [null, /./],
  ])('refuses the cron expression %j', (cron, reason) => {
    const { option, message } = problemOf(() => scheduleOf({ cron }))
    expect(option).toBe('cron')
    expect(message).toMatch(reason)
    expect(message).toContain("'minute hour day month weekday'")
  })

  it.each([
    '* * * * * *',
    '0 0 29 2 *',
    '0 0 L * *',
    '0 9 * * MON-FRI',
    '0 0 * * FRI#2',
    '0 0 15W * *',
    '@daily',
    ' 0  0 * * 7 ',
  ])('takes the cron expression %j', cron => {
    expect(nextSlots(scheduleOf({ cron }))).toHaveLength(1)
  })

  it.each([
    ['neither cron nor every', {}, 'cron'],
    ['both cron and every', { cron: '@daily', every: '1h' }, 'cron'],
    ['an interval below a second', { every: '500ms' }, 'every'],
    ['an interval with a part of a second', { every: '1.5s' }, 'every'],
    ['an interval that is none', { every: 'daily' }, 'every'],
    ['an interval of 0', { every: 0 }, 'every'],
    ['an interval from the start of the process', { every: '1h', startAt: 1_700_000_000_123 }, 'startAt'],
    ['an unknown zone', { cron: '@daily', timeZone: 'Europe/Atlantis' }, 'timeZone'],
    ['an empty zone', { cron: '@daily', timeZone: '' }, 'timeZone'],
    ['an offset in place of a zone', { cron: '@daily', timeZone: '+02:00' }, 'timeZone'],
    ['an unknown way to catch up', { cron: '@daily', catchUp: 'none' }, 'catchUp'],
    ['a bound for what is not caught up', { cron: '@daily', catchUp: 'skip', catchUpWithin: '1h' }, 'catchUpWithin'],
    ['an unknown overlap', { cron: '@daily', overlap: 'queue' }, 'overlap'],
    ['all slots at once, one at a time', { cron: '@daily', catchUp: 'all', overlap: 'skip' }, 'overlap'],
    ['a spread of more than a day', { cron: '@daily', spread: '2d' }, 'spread'],
    ['an end before its start', { cron: '@daily', startAt: '2027-01-02', endAt: '2027-01-01' }, 'endAt'],
    ['no slot between start and end', { cron: '0 12 1 * *', startAt: '2027-01-02', endAt: '2027-01-31' }, 'endAt'],
    ['a misspelt option', { cron: '@daily', timezone: 'UTC' }, 'timezone'],
    ['a task that is none', { cron: '@daily', task: {} }, 'task'],
    ['a priority that is none', { cron: '@daily', priority: Number.NaN }, 'priority'],
  ])('refuses %s', (_, options, option) => {
    expect(problemOf(() => scheduleOf(options)).option).toBe(option)
  })

  it('refuses a payload that JSON cannot hold', () => {
    expect(() => scheduleOf({ cron: '@daily', payload: { at: new Map() } })).toThrow(/payload/)
  })

  it.each(['', 'a b', 'a@b', 'é', 'a/b', 'x'.repeat(101)])('refuses the name %j', name => {
    expect(problemOf(() => scheduleOf({ cron: '@daily' }, name)).option).toBe('name')
  })

  it('takes an end in the past, so that a program goes on after it', () => {
    expect(nextSlots(scheduleOf({ cron: '@daily', endAt: '2020-01-01' }), { count: 3 })).toEqual([])
  })
})

describe('nextSlots()', () => {
  it('returns the next slots, across a change of the clocks', () => {
    const nightly = schedule('nightly', { cron: '30 2 * * *', timeZone: 'Europe/Berlin', task: report })
    const slots = nextSlots(nightly, { count: 3, after: '2027-03-26T12:00:00Z' })
    expect(slots.map(slot => slot.toISOString())).toEqual([
      '2027-03-27T01:30:00.000Z',
      '2027-03-28T01:00:00.000Z',
      '2027-03-29T00:30:00.000Z',
    ])
  })
})

describe('proveSchedule()', () => {
  const prove = (cron: string, timeZone: string, year: number) =>
    proveSchedule(schedule('x', { cron, timeZone, task: report }), year).map(({ day, forwardMs, shown, slots }) => ({
      day,
      minutes: forwardMs / 60_000,
      shown: `${shown.before.slice(11, 16)}→${shown.after.slice(11, 16)}`,
      slots: slots.map(({ at, local }) => `${local.slice(11, 16)} at ${new Date(at).toISOString().slice(11, 16)}Z`),
    }))

  it('shows each day on which the clocks change, with what happens', () => {
    expect(prove('30 2 * * *', 'Europe/Berlin', 2027)).toEqual([
      { day: '2027-03-28', minutes: 60, shown: '02:00→03:00', slots: ['02:30 at 01:00Z'] },
      { day: '2027-10-31', minutes: -60, shown: '03:00→02:00', slots: ['02:30 at 00:30Z'] },
    ])
    expect(prove('*/30 2 * * *', 'Europe/Berlin', 2027).map(({ slots }) => slots.length)).toEqual([0, 4])
  })

  it('knows changes at midnight, of half an hour, and a day that is left out', () => {
    expect(prove('0 0 * * *', 'America/Santiago', 2027)).toEqual([
      { day: '2027-04-03', minutes: -60, shown: '00:00→23:00', slots: ['00:00 at 03:00Z'] },
      { day: '2027-09-05', minutes: 60, shown: '00:00→01:00', slots: ['00:00 at 04:00Z'] },
    ])
    expect(prove('0 2 * * *', 'Australia/Lord_Howe', 2027).map(({ minutes }) => minutes)).toEqual([-30, 30])
    expect(prove('0 12 * * *', 'Pacific/Apia', 2011).find(({ day }) => day === '2011-12-30')).toMatchObject({
      minutes: 1440,
      slots: [],
    })
  })

  it('has nothing to show for a zone whose clocks do not change', () => {
    expect(prove('0 0 * * *', 'UTC', 2027)).toEqual([])
    expect(prove('0 0 * * *', 'Asia/Tokyo', 2027)).toEqual([])
  })

  it('refuses a year that is none', () => {
    expect(() => prove('0 0 * * *', 'UTC', 27)).toThrow(OptionError)
  })
})
