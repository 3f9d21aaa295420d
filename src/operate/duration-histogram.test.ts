import { expect, it } from 'vitest'
import { DurationHistogram } from './duration-histogram.js'

it('has nothing to say of no durations', () => {
  expect(new DurationHistogram().percentiles()).toEqual({ p50: null, p90: null, p99: null, max: null })
})

it('is exact for one duration, and for none below zero', () => {
  const histogram = new DurationHistogram()
  histogram.add(-5)
  expect(histogram.percentiles()).toEqual({ p50: 0, p90: 0, p99: 0, max: 0 })
})

it('never says more than the longest duration', () => {
  const histogram = new DurationHistogram()
  histogram.add(1234)
  const { p50, max } = histogram.percentiles()
  expect(max).toBe(1234)
  expect(p50).toBeLessThanOrEqual(1234)
})

it('is within 5 % of the true percentiles, whatever the scale', () => {
  for (const scale of [20, 1000, 600_000]) {
    const histogram = new DurationHistogram()
    const durations = Array.from({ length: 10_000 }, (_, i) => scale * (1 + ((i * 7919) % 10_000) / 1000))
    for (const duration of durations) histogram.add(duration)
    durations.sort((a, b) => a - b)
    const { p50, p90, p99 } = histogram.percentiles()
    for (const [share, found] of [
      [0.5, p50],
      [0.9, p90],
      [0.99, p99],
    ] as const) {
      const exact = durations[Math.ceil(share * durations.length) - 1] ?? 0
      expect(Math.abs((found ?? 0) / exact - 1)).toBeLessThan(0.05)
    }
  }
})
