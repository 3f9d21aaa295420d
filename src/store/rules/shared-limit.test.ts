import { describe, expect, it } from 'vitest'
import type { SharedLimits } from '../contract/lane.js'
import {
  afterAnswer,
  afterRefusal,
  afterStart,
  afterUse,
  learned,
  NEW_STATE,
  opensAt,
  paceAt,
  relimited,
  type SharedState,
} from './shared-limit.js'

const NO_LIMITS: SharedLimits = { isShared: true }
const START = Date.UTC(2026, 0, 1)

/** An API that allows so many requests per second, and holds so many in its bucket. */
interface Api {
  readonly perSecond: number
  readonly bucket: number
  readonly retryAfterMs: number
  /** The seconds in which it refuses everything. */
  readonly outage?: readonly [from: number, to: number]
}

/** Simulates 50 calls of 100 ms in flight, for a minute. */
function simulate({ perSecond, bucket, retryAfterMs, outage: [from, to] = [0, 0] }: Api, seconds = 60) {
  let state: SharedState = NEW_STATE
  let level = bucket
  let free = 50
  let completed = 0
  let refused = 0
  const bySecond: number[] = Array.from({ length: seconds }, () => 0)
  const ends = new Map<number, { readonly began: number; readonly isAccepted: boolean }[]>()
  for (let now = START; now < START + seconds * 1000; now++) {
    const second = Math.floor((now - START) / 1000)
    const isDown = second >= from && second < to
    level = Math.min(bucket, level + perSecond / 1000)
    for (const { began, isAccepted } of ends.get(now) ?? []) {
      free++
      if (isAccepted) completed++
      else refused++
      bySecond[second] = (bySecond[second] ?? 0) + Number(isAccepted)
      state = isAccepted ? afterAnswer(state, now) : afterRefusal(state, 't', began, now + retryAfterMs, now)
    }
    for (; free > 0 && opensAt(NO_LIMITS, state, undefined, now) <= now; free--) {
      state = afterStart(NO_LIMITS, state, undefined, now)
      const isAccepted = level >= 1 && !isDown
      if (isAccepted) level--
      ends.set(now + 100, [...(ends.get(now + 100) ?? []), { began: now, isAccepted }])
    }
  }
  return { perSecond: completed / seconds, refused: refused / (refused + completed), bySecond }
}

describe('the learned pace', () => {
  it.each([
    { perSecond: 100, bucket: 100, retryAfterMs: 1000 },
    { perSecond: 100, bucket: 100, retryAfterMs: 100 },
    { perSecond: 100, bucket: 10, retryAfterMs: 100 },
  ])(
    'meets few refusals and wastes little of $perSecond a second, bucket of $bucket, Retry-After of $retryAfterMs ms',
    api => {
      const { perSecond, refused } = simulate(api)
      expect(refused).toBeLessThan(0.02)
      expect(perSecond).toBeGreaterThan(90)
    },
  )

  it('loses some of the first minute where the bucket is small and the hold is long', () => {
    const { perSecond, refused } = simulate({ perSecond: 100, bucket: 10, retryAfterMs: 1000 })
    expect(refused).toBeLessThan(0.02)
    expect(perSecond).toBeGreaterThan(80)
  })

  it('does not slow down what is never refused', () => {
    expect(simulate({ perSecond: 1000, bucket: 1000, retryAfterMs: 1000 }, 10)).toMatchObject({ refused: 0 })
  })

  it('learns a slow rate', () => {
    const { perSecond, refused } = simulate({ perSecond: 2, bucket: 1, retryAfterMs: 1000 }, 600)
    expect(perSecond).toBeGreaterThan(1.5)
    expect(refused).toBeLessThan(0.15)
  })

  it('never takes away more than half, however few were accepted', () => {
    let state = afterRefusal(busy(100), 't', START, START + 100, START)
    const before = paceAt(state, START + 100) ?? 0
    state = afterRefusal(afterAnswer(state, START + 200), 't', START + 100, START + 30_100, START + 30_000)
    expect(paceAt(state, START + 30_100)).toBeCloseTo(before / 2)
  })

  it.each([10, 30, 300])('is soon back after a service has refused everything for %d s', seconds => {
    const end = 20 + seconds
    const api = { perSecond: 100, bucket: 100, retryAfterMs: 1000, outage: [20, end] } as const
    const { bySecond } = simulate(api, end + 90)
    const mean = (from: number, to: number) => sum(bySecond.slice(from, to)) / (to - from)
    expect(mean(end + 80, end + 90)).toBeGreaterThan(0.9 * mean(10, 20))
    expect(mean(end + 5, end + 90)).toBeGreaterThan(0.9 * mean(10, 20))
  })

  it('has a floor, and ends within a minute there too', () => {
    let state = afterRefusal(busy(1), 't', START, START + 100, START)
    let now = START
    for (let cut = 0; cut < 100; cut++) {
      now += 20_000
      state = afterRefusal(afterAnswer(state, now - 10_000), 't', now - 1000, now + 100, now)
    }
    expect(paceAt(state, now + 100)).toBeCloseTo(0.45)
    expect(opensAt(NO_LIMITS, state, undefined, now)).toBe(now + 100)
    expect(paceAt(state, now + 60_000)).toBeUndefined()
  })
})

describe('the time that a limit opens', () => {
  const limits: SharedLimits = { isShared: true, rates: { tokens: { perSecond: 3, burst: 7 } } }

  it('is exact for buckets: a task may start then, and not a millisecond before', () => {
    let state: SharedState = NEW_STATE
    let now = START
    for (let start = 0; start < 200; start++) {
      const cost = { tokens: (start * 7) % 11 }
      const at = opensAt(limits, state, cost, now)
      expect(opensAt(limits, state, cost, at)).toBe(at)
      if (at > now) expect(opensAt(limits, state, cost, at - 1)).toBeGreaterThan(at - 1)
      now = at
      state = afterStart(limits, state, cost, now)
    }
  })

  it('lets a task start then at the learned pace too, which grows meanwhile', () => {
    let state: SharedState = afterRefusal(busy(30), 't', START, START + 10, START)
    let now = START
    for (let start = 0; start < 200; start++) {
      now = opensAt(NO_LIMITS, state, undefined, now)
      expect(opensAt(NO_LIMITS, state, undefined, now)).toBe(now)
      state = afterStart(NO_LIMITS, state, undefined, now)
    }
  })

  it('is at most an hour away for a debt, whatever it was', () => {
    const used = afterUse(limits, NEW_STATE, undefined, { tokens: 1e20 }, START)
    expect(opensAt(limits, used, { tokens: 0 }, START)).toBe(START + 3_600_000)
    const started = afterStart(limits, NEW_STATE, { tokens: Number.MAX_VALUE }, START)
    expect(opensAt(limits, started, { tokens: 0 }, START)).toBe(START + 3_600_000)
  })

  it('does not wait for a clock that was set back', () => {
    let state = afterStart(limits, busy(5), { tokens: 100 }, START)
    state = afterRefusal(state, 't', START, START + 1000, START)
    const now = START - 3_600_000
    expect(opensAt(limits, state, undefined, now)).toBe(now)
    state = afterRefusal(state, 't', now, now + 500, now)
    expect(opensAt(limits, state, undefined, now)).toBe(now + 500)
  })

  it('is now, without hold and pace, as soon as the limits are others', () => {
    const state = afterRefusal(busy(5), 't', START, START + 60_000, START)
    expect(relimited(state, NO_LIMITS, { isShared: true })).toBe(state)
    const other = relimited(state, NO_LIMITS, limits)
    expect(opensAt(limits, other, undefined, START)).toBe(START)
    expect(paceAt(other, START)).toBeUndefined()
  })

  it('learns the same from refusals that were only noted at first', () => {
    const kept: SharedState = { ...busy(20), heldUntil: START - 5000, heldBy: 'old' }
    const refusals = [
      { task: 'a', began: START - 100, until: START + 2000, at: START },
      { task: 'b', began: START - 100, until: START + 500, at: START + 10 },
      { task: 'c', began: START + 2500, until: START + 9000, at: START + 2600 },
    ]
    const noted = { ...kept, heldUntil: START + 9000, heldBy: 'c', heldBefore: kept.heldUntil, refusals }
    const direct = refusals.reduce((state, one) => afterRefusal(state, one.task, one.began, one.until, one.at), kept)
    expect(learned(noted, [])).toEqual(direct)
    expect(paceAt(learned(noted, []), START + 9000)).toBe(0.9 * 20)
  })

  it('counts answers that were noted by second, late ones too', () => {
    const second = START / 1000
    const state = learned(busy(3), [
      [second - 7, 100],
      [second - 1, 4],
      [second, 2],
    ])
    expect(state.answers).toEqual({ at: second, count: 5, before: 4 })
    expect(learned(state, [[second + 1, 1]]).answers).toEqual({ at: second + 1, count: 1, before: 5 })
    const paced = afterRefusal(state, 't', START, START, START)
    expect(learned(paced, [[second - 7, 100]]).pace?.accepted).toBe(100)
  })

  it('survives JSON', () => {
    const used = afterUse(
      limits,
      afterStart(limits, busy(5), { tokens: 9 }, START),
      { tokens: 9 },
      { tokens: 4 },
      START,
    )
    const state = afterRefusal(used, 't', START, START + 500, START)
    const read = JSON.parse(JSON.stringify(state)) as SharedState
    expect(opensAt(limits, read, undefined, START)).toBe(opensAt(limits, state, undefined, START))
    expect(relimited(read, limits, NO_LIMITS).buckets).toEqual({})
  })
})

/** A state in which this many attempts have just been accepted. */
function busy(answers: number): SharedState {
  let state = NEW_STATE
  for (let answer = 0; answer < answers; answer++) state = afterAnswer(state, START)
  return state
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}
