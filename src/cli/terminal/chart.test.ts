import { describe, expect, it } from 'vitest'
import { bar, grouped, percent, track } from './chart.js'

describe('a bar', () => {
  it.each([
    [0, ''],
    [1, '████'],
    [0.5, '██'],
    [0.625, '██▌'],
    [0.0001, '▏'],
    [7, '████'],
  ])('of %f', (share, text) => expect(bar(share, 4)).toBe(text))

  it('on a track has the whole width', () => {
    expect(track(0, 4)).toBe('░░░░')
    expect(track(0.99, 4)).toBe('███░')
    expect(track(1, 4)).toBe('████')
  })
})

it.each([
  [0, '0 %'],
  [0.0001, '< 0.1 %'],
  [0.0123, '1.2 %'],
  [0.99999, '> 99.9 %'],
  [1, '100 %'],
])('%f is %s', (share, text) => expect(percent(share)).toBe(text))

it.each([
  [0, '0'],
  [999, '999'],
  [1000, '1 000'],
  [1234567.4, '1 234 567'],
])('%f is %s', (value, text) => expect(grouped(value)).toBe(text))
