import { describe, expect, it } from 'vitest'
import { delayAfter } from './backoff.js'
import { policies } from './named-policies.js'
import { policy } from './parse.js'
import type { Policy } from './policy.js'

const ALMOST_ONE = 1 - 2 ** -53

/** Every delay that follows a failed attempt; none follows the last. */
function delays(of: Policy, random: number): number[] {
  return Array.from({ length: of.attempts - 1 }, (_, i) => delayAfter(of, i + 1, undefined, random))
}

describe('the named policies', () => {
  it('call: three attempts, spread from 0 up to one and two seconds, no deferrals', () => {
    expect(policies.call).toMatchObject({ attempts: 3, deferrals: 0 })
    expect(delays(policies.call, 0)).toEqual([0, 0])
    expect(delays(policies.call, ALMOST_ONE)).toEqual([1000, 2000])
    expect(policies.call.retryOn).toBeUndefined()
  })

  it('event: eight calls and seven waits, up to 250 ms at first, within half an hour', () => {
    expect(policies.event).toMatchObject({ attempts: 8, deferrals: 0, ttl: 1_800_000 })
    expect(policies.event.retryOn).toBeUndefined()
    expect(delays(policies.event, 0)).toEqual([0, 0, 0, 0, 0, 0, 0])
    expect(delays(policies.event, 0.5)).toEqual([125, 250, 500, 1000, 2000, 4000, 8000])
    expect(delays(policies.event, ALMOST_ONE)).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000])
    expect(delayAfter(policies.event, 9, undefined, ALMOST_ONE)).toBe(60_000)
  })

  it('task: eight attempts, 60 s doubled up to an hour, exactly, and 100 deferrals', () => {
    expect(policies.task).toMatchObject({ attempts: 8, deferrals: 100, timeout: 3_600_000 })
    for (const random of [0, 0.5, ALMOST_ONE]) {
      const seconds = delays(policies.task, random).map(ms => ms / 1000)
      expect(seconds).toEqual([60, 120, 240, 480, 960, 1920, 3600])
    }
    expect(policies.task.retryOn).toBeUndefined()
  })

  it('stage: three attempts, one second doubled up to a minute, ±25 %, all errors, and 100 deferrals', () => {
    expect(policies.stage).toMatchObject({ attempts: 3, deferrals: 100, timeout: 30_000, retryOn: 'all' })
    expect(delays(policies.stage, 0)).toEqual([750, 1500])
    expect(delays(policies.stage, 0.5)).toEqual([1000, 2000])
    expect(delays(policies.stage, ALMOST_ONE)).toEqual([1250, 2500])
    expect(delayAfter(policies.stage, 20, undefined, ALMOST_ONE)).toBe(75_000)
  })

  it('once: one attempt, whatever happens', () => {
    expect(policies.once).toMatchObject({ attempts: 1, deferrals: 0 })
  })

  it('can be spread and changed', () => {
    expect(policy({ ...policies.task, attempts: 5 })).toEqual({ ...policies.task, attempts: 5 })
  })
})
