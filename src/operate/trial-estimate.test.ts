import { describe, expect, it } from 'vitest'
import { estimate, type TrialItem } from './trial-estimate.js'

function items(count: number, dead: number, retried: number): TrialItem[] {
  return Array.from({ length: count }, (_, i) => ({
    isDead: i < dead,
    calls: i < retried ? 4 : 3,
    retries: i < retried ? 1 : 0,
  }))
}

describe('the estimate of a trial', () => {
  it('gives the dead letters of the whole with an exact interval', () => {
    const { dead, deadRate } = estimate({ items: items(200, 2, 0), durationMs: 2000, total: 100_000 })
    expect(dead).toEqual({ expected: 1000, low: 121, high: 3566 })
    expect(deadRate.high).toBeCloseTo(0.0357, 4)
  })

  it('does not promise that nothing dies because nothing died', () => {
    const { dead, retries } = estimate({ items: items(200, 0, 0), durationMs: 2000, total: 100_000 })
    expect(dead).toEqual({ expected: 0, low: 0, high: 1828 })
    expect(retries).toEqual({ expected: 0, low: 0, high: 1828 })
  })

  it('gives calls and retries with the spread of the sample', () => {
    const { calls, retries } = estimate({ items: items(200, 0, 20), durationMs: 2000, total: 10_000 })
    expect(calls.expected).toBe(31_000)
    expect(calls.low).toBeGreaterThan(30_500)
    expect(calls.high).toBeLessThan(31_500)
    expect(retries).toMatchObject({ expected: 1000, low: 583, high: 1417 })
  })

  it('never expects less than the sample itself took', () => {
    expect(estimate({ items: items(200, 0, 3), durationMs: 2000, total: 200 }).calls.low).toBe(603)
  })

  it('scales the time of the sample, unless a rate says that it takes longer', () => {
    const trial = { items: items(200, 0, 0), durationMs: 2000, total: 10_000 }
    expect(estimate(trial)).toMatchObject({ durationMs: 100_000, isPaced: false })
    expect(estimate({ ...trial, perSecond: 10 })).toMatchObject({ durationMs: 1_000_000, isPaced: true })
    expect(estimate({ ...trial, perSecond: 1000 })).toMatchObject({ durationMs: 100_000, isPaced: false })
  })

  it('speaks of 1000 items where the size of the source is unknown', () => {
    expect(estimate({ items: items(100, 1, 0), durationMs: 1000, total: undefined })).toMatchObject({
      total: 1000,
      dead: { expected: 10 },
    })
  })

  it('has no figures for an empty sample', () => {
    expect(estimate({ items: [], durationMs: 0, total: 0 })).toMatchObject({
      sampled: 0,
      dead: { expected: 0, high: 0 },
    })
  })
})
