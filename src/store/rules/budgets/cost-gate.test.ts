import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { afterSpent, costLeft, type SpentWindow, spentNow } from './cost-gate.js'

const DAY = 86_400_000

describe('a cost budget', () => {
  it('is never exceeded by tasks that spend no more than the mean of those before them', () => {
    const scene = fc.record({ limit: fc.integer({ min: 1, max: 1000 }), each: fc.integer({ min: 1, max: 50 }) })
    fc.assert(
      fc.property(scene, fc.array(fc.nat(20), { maxLength: 60 }), ({ limit, each }, asked) => {
        fc.pre(each <= limit)
        const settings = { amounts: { tokens: limit }, windowMs: DAY }
        let windows: SpentWindow[] = []
        let running = 0
        for (const count of asked) {
          running += Math.min(count, costLeft(settings, spentNow(windows, DAY, 0), running))
          const ended = Math.ceil(running / 2)
          if (ended > 0) windows = afterSpent(windows, { attempts: ended, used: { tokens: ended * each } }, DAY, 0)
          running -= ended
          const { used } = spentNow(windows, DAY, 0)
          expect((used.tokens ?? 0) + running * each).toBeLessThanOrEqual(limit)
        }
      }),
    )
  })

  it('forgets what was spent with its window, and the mean one window later', () => {
    const windows = afterSpent([], { attempts: 2, used: { tokens: 60 } }, DAY, DAY - 1)
    expect(spentNow(windows, DAY, DAY)).toEqual({ used: {}, recent: { attempts: 2, used: { tokens: 60 } } })
    expect(spentNow(windows, DAY, 2 * DAY)).toEqual({ used: {}, recent: { attempts: 0, used: {} } })
    const [before, current, ...others] = afterSpent(windows, { attempts: 1, used: { tokens: 1 } }, DAY, DAY)
    expect([before?.at, current?.at, others]).toEqual([0, DAY, []])
    expect(afterSpent(windows, { attempts: 1, used: {} }, DAY, 3 * DAY)).toHaveLength(1)
  })
})
