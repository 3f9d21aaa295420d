import { expect, it } from 'vitest'
import { binomialInterval } from './binomial-interval.js'

/** From R's binom.test, as tables of the exact interval give them. */
it.each([
  [0, 200, 0, 0.018275],
  [2, 200, 0.001213, 0.03565],
  [1, 10, 0.002529, 0.445016],
  [5, 10, 0.187086, 0.812914],
  [200, 200, 0.981725, 1],
  [50, 5000, 0.007432, 0.013159],
])('%i of %i: %f to %f', (hits, trials, low, high) => {
  const interval = binomialInterval(hits, trials)
  expect(interval.low).toBeCloseTo(low, 4)
  expect(interval.high).toBeCloseTo(high, 4)
})

it('knows nothing without trials', () => {
  expect(binomialInterval(0, 0)).toEqual({ low: 0, high: 1 })
})

it('holds the true share in at least 95 of 100 samples', () => {
  let seed = 1
  const random = () => {
    seed = (seed * 48271) % 2147483647
    return seed / 2147483647
  }
  for (const share of [0.005, 0.05, 0.4]) {
    let held = 0
    for (let sample = 0; sample < 1000; sample++) {
      let hits = 0
      for (let trial = 0; trial < 200; trial++) if (random() < share) hits++
      const { low, high } = binomialInterval(hits, 200)
      if (low <= share && share <= high) held++
    }
    expect(held).toBeGreaterThanOrEqual(950)
  }
})
