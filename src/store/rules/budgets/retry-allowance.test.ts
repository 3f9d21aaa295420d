import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RetrySettings } from './check-budget.js'
import {
  floorAfter,
  nextAsk,
  type RetryBucket,
  retriesLeft,
  retryFigures,
  retryRecord,
  withRetries,
} from './retry-allowance.js'

const START = 1_700_000_000_123
const MINUTE_MS = 60_000

interface Pass {
  readonly at: number
  readonly count: number
}

/** A budget with retries that wait without end, which claims let through. */
class Simulation {
  readonly passes: Pass[] = []
  readonly #budget: RetrySettings
  #buckets: readonly RetryBucket[] = []
  now = START

  constructor(budget: Partial<RetrySettings>) {
    this.#budget = { share: 0.2, windowMs: MINUTE_MS, floor: 1, ...budget }
  }

  get figures() {
    return retryFigures(this.#buckets, this.#budget.windowMs, this.now)
  }

  get nextAt(): number | undefined {
    return retryRecord(this.#budget, this.#buckets, 0, this.now).nextAt
  }

  first(count: number): void {
    this.#buckets = withRetries(this.#buckets, { first: count }, this.#budget.windowMs, this.now)
  }

  /** Makes a claim. Returns how many retries it lets through. */
  claim(): number {
    const { floorAt, ...counts } = this.figures
    const count = retriesLeft(this.#budget, { ...counts, floorAt }, this.now)
    if (count === 0) return 0
    this.passes.push({ at: this.now, count })
    const passed = { retried: count, floorAt: floorAfter(this.#budget, floorAt, count, this.now) }
    this.#buckets = withRetries(this.#buckets, passed, this.#budget.windowMs, this.now)
    return count
  }

  /** Makes claims whenever the last one asked for it, each late by up to so much. */
  run(forMs: number, lateMs = () => 0): void {
    const end = this.now + forMs
    while (this.now < end) {
      this.claim()
      this.now = nextAsk(this.#budget, this.figures.floorAt, this.now) + lateMs()
    }
  }

  passedSince(at: number): number {
    return sum(this.passes.filter(pass => pass.at >= at))
  }

  /** The largest number of retries in any window. */
  get mostInAWindow(): number {
    const windows = this.passes.map(({ at }) =>
      this.passes.filter(pass => pass.at >= at && pass.at < at + this.#budget.windowMs),
    )
    return Math.max(0, ...windows.map(sum))
  }
}

function sum(passes: readonly Pass[]): number {
  return passes.reduce((all, { count }) => all + count, 0)
}

const WINDOWS = { '10s': 10_000, '1m': MINUTE_MS, '10m': 10 * MINUTE_MS }

describe.each(Object.entries(WINDOWS))('the floor with a window of %s', (_, windowMs) => {
  it.each([0.3, 1, 2.5, 10])('lets %d per second through evenly, and never more in any window', floor => {
    const simulation = new Simulation({ windowMs, floor })
    simulation.run(5 * MINUTE_MS)
    expect(simulation.mostInAWindow).toBeLessThanOrEqual((floor * windowMs) / 1000)
    expect(simulation.passedSince(START)).toBeGreaterThanOrEqual(0.98 * floor * 300)
    expect(Math.max(...simulation.passes.map(({ count }) => count))).toBeLessThanOrEqual(Math.ceil(floor))
  })
})

describe('the floor', () => {
  it('lets no more through than it is worth in any window, whatever its numbers and however late claims come', () => {
    const seconds = fc.integer({ min: 10, max: 600 })
    const floors = fc.oneof(fc.double({ min: 0.1, max: 3, noNaN: true }), fc.integer({ min: 1, max: 50 }))
    const delays = fc.infiniteStream(fc.integer({ min: 0, max: 3000 }))
    const property = fc.property(seconds, floors, delays, (windowS, floor, lateMs) => {
      fc.pre(floor * windowS >= 1)
      const simulation = new Simulation({ windowMs: windowS * 1000, floor })
      simulation.run(3 * MINUTE_MS, () => lateMs.next().value ?? 0)
      expect(simulation.mostInAWindow).toBeLessThanOrEqual(floor * windowS + 1e-9)
      expect(Math.max(...simulation.passes.map(({ count }) => count))).toBeLessThanOrEqual(Math.ceil(floor))
    })
    fc.assert(property, { numRuns: 200 })
  })

  it('saves up while claims come a little late, and loses nothing', () => {
    const simulation = new Simulation({ floor: 10 })
    simulation.run(5 * MINUTE_MS, () => 100)
    expect(simulation.passedSince(START)).toBeGreaterThanOrEqual(0.98 * 10 * 300)
  })

  it('waits for what the share has let through, since the bound is the larger of the two', () => {
    const simulation = new Simulation({})
    simulation.first(1000)
    expect(simulation.claim()).toBe(200)
    simulation.now += 2000
    simulation.first(1)
    simulation.run(58_000)
    expect(simulation.passedSince(START)).toBe(200)
    simulation.run(MINUTE_MS)
    expect(simulation.passes.slice(1).every(({ at, count }) => at > START + MINUTE_MS && count === 1)).toBe(true)
    expect(simulation.mostInAWindow).toBe(200)
    expect(simulation.passedSince(START)).toBeGreaterThanOrEqual(258)
  })

  it('owes no more than a window, while the share goes on to let a few through', () => {
    const simulation = new Simulation({})
    simulation.first(5000)
    expect(simulation.claim()).toBe(1000)
    for (let n = 0; n < 12; n++) {
      simulation.run(20_000)
      simulation.first(5)
    }
    expect(simulation.passedSince(START + 2 * MINUTE_MS)).toBeGreaterThanOrEqual(0.98 * 120)
  })

  it('fills up what the share lets through', () => {
    const simulation = new Simulation({ share: 0.1, floor: 1 })
    simulation.first(300)
    expect(simulation.claim()).toBe(30)
    simulation.run(MINUTE_MS)
    expect(simulation.mostInAWindow).toBe(60)
  })

  it('goes on after the clock was set back', () => {
    const simulation = new Simulation({ floor: 1 })
    simulation.run(MINUTE_MS)
    simulation.now -= 60 * MINUTE_MS
    expect(simulation.claim()).toBe(1)
  })
})

describe('the share', () => {
  it('is what returns of a steady load, also with a short window', () => {
    for (const windowMs of Object.values(WINDOWS)) {
      const simulation = new Simulation({ windowMs, share: 0.2, floor: 0.1 })
      const second = (n: number) => {
        simulation.now = START + n * 1000
        simulation.first(100)
        simulation.claim()
      }
      for (let n = 0; n < 1500; n++) second(n)
      const rate = simulation.passedSince(START + 900_000) / 600
      expect(rate, `with a window of ${windowMs} ms`).toBeGreaterThan(0.8 * 20)
      expect(rate, `with a window of ${windowMs} ms`).toBeLessThanOrEqual(20)
    }
  })
})

describe('the time at which the next retries pass', () => {
  it('is known to the millisecond, by the floor and by the share', () => {
    const [floor, share] = [new Simulation({}), new Simulation({ share: 0.5, floor: 0.1, windowMs: 10_000 })]
    share.first(10)
    for (const simulation of [floor, share]) {
      expect(simulation.nextAt).toBeUndefined()
      simulation.claim()
      const { nextAt = 0 } = simulation
      expect(nextAt).toBeGreaterThan(simulation.now)
      simulation.now = nextAt - 1
      expect(simulation.claim()).toBe(0)
      simulation.now = nextAt
      expect(simulation.claim()).toBeGreaterThan(0)
    }
  })
})
