import { expect, it } from 'vitest'
import { parseMoment } from './moment.js'

it.each([
  ['2030-03-10', Date.UTC(2030, 2, 10)],
  ['1970-01-01', 0],
  ['2030-03-10T08:00Z', Date.UTC(2030, 2, 10, 8)],
  ['2030-03-10T08:00:30.5Z', Date.UTC(2030, 2, 10, 8, 0, 30, 500)],
  ['2030-03-10T08:00+02:00', Date.UTC(2030, 2, 10, 6)],
  ['2028-02-29T23:30:00-01:00', Date.UTC(2028, 2, 1, 0, 30)],
])('reads %s', (text, at) => {
  expect(parseMoment(text)).toBe(at)
})

it.each([
  ['a time without a zone', '2030-03-10T08:00:00'],
  ['a date that is not ISO', '10/03/2030'],
  ['a date in words', '10 March 2030'],
  ['a year', '2030'],
  ['a time without a date', '08:00Z'],
  ['a day that does not exist', '2030-02-30T08:00Z'],
  ['a month that does not exist', '2030-13-01'],
  ['an hour that does not exist', '2030-03-10T25:00Z'],
  ['milliseconds as text', '1900000000000'],
  ['space around it', ' 2030-03-10 '],
  ['nothing', ''],
])('refuses %s', (_, text) => {
  expect(parseMoment(text)).toBeUndefined()
})
