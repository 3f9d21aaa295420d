import { describe, expect, it } from 'vitest'
import {
  afterAnswer,
  afterRefusal,
  afterStart,
  afterUse,
  NEW_STATE,
  opensAt,
  paceAt,
  relimited,
  type SharedState,
} from './shared-limit.js'
import type { SharedLimits } from './store.js'

const NO_LIMITS: SharedLimits = { isShared: true }
const START = Date.UTC(2026, 0, 1)

/** An API that allows so many requests per second, and holds so many in its bucket. */
interface Api {
  readonly perSecond: number
  readonly bucket: number
  readonly retryAfterMs: number
}

/** Simulates 50 calls of 100 ms in flight, for a minute. */
function simulate({ perSecond, bucket, retryAfterMs }: Api, seconds = 60) {
  let state: SharedState = NEW_STATE
  let level = bucket
  let free = 50
  let completed = 0
  let refused = 0
  const ends = new Map<number, { readonly began: number; readonly isAccepted: boolean }[]>()
  for (let now = START; now < START + seconds * 1000; now++) {
    level = Math.min(bucket, level + perSecond / 1000)
    for (const { began, isAccepted } of ends.get(now) ?? []) {
      free++
      if (isAccepted) completed++
      else refused++
      state = isAccepted ? afterAnswer(state, now) : afterRefusal(state, began, now + retryAfterMs, now)
    }
    for (; free > 0 && opensAt(NO_LIMITS, state, undefined, now) <= now; free--) {
      state = afterStart(NO_LIMITS, state, undefined, now)
      const isAccepted = level >= 1
      if (isAccepted) level--
      ends.set(now + 100, [...(ends.get(now + 100) ?? []), { began: now, isAccepted }])
    }
  }
  return { perSecond: completed / seconds, refused: refused / (refused + completed) }
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
    let state = afterRefusal(busy(100), START, START + 100, START)
    const before = paceAt(state, START + 100) ?? 0
    state = afterRefusal(state, START + 100, START + 30_100, START + 30_000)
    expect(paceAt(state, START + 30_100)).toBeCloseTo(before / 2)
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
    let state: SharedState = afterRefusal(busy(30), START, START + 10, START)
    let now = START
    for (let start = 0; start < 200; start++) {
      now = opensAt(NO_LIMITS, state, undefined, now)
      expect(opensAt(NO_LIMITS, state, undefined, now)).toBe(now)
      state = afterStart(NO_LIMITS, state, undefined, now)
    }
  })

  it('survives JSON', () => {
    const used = afterUse(
      limits,
      afterStart(limits, busy(5), { tokens: 9 }, START),
      { tokens: 9 },
      { tokens: 4 },
      START,
    )
    const state = afterRefusal(used, START, START + 500, START)
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
