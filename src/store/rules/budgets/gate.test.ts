import { describe, expect, it } from 'vitest'
import { counted, NO_COUNTS, recentOf } from './attempt-counts.js'
import {
  afterStarts,
  failureOf,
  type Gate,
  gateRecord,
  isProbe,
  judged,
  NEW_GATE,
  NO_PROBES,
  startsLeft,
} from './gate.js'

const BUDGET = { share: 0.5, minAttempts: 10, windowMs: 60_000, holdMs: 30_000 }
const never = () => false

const failure = failureOf('http_503', '1-9c2f')
const recent = (attempts: number, failed: number) => ({ attempts, failed, failure })
const judge = (gate: Gate, seen: Partial<Parameters<typeof judged>[2]>, now: number) =>
  judged(BUDGET, gate, { recent: recent(0, 0), probes: NO_PROBES, ...seen }, now)

describe('a gate', () => {
  it('stays closed up to its share, and with few attempts', () => {
    expect(judge(NEW_GATE, { recent: recent(10, 5) }, 0)).toBe(NEW_GATE)
    expect(judge(NEW_GATE, { recent: recent(9, 9) }, 0)).toBe(NEW_GATE)
  })

  it('opens above its share, with the cause and the end of the hold', () => {
    const gate = judge(NEW_GATE, { recent: recent(10, 6) }, 1000)
    expect(gateRecord(gate, 1000)).toEqual({
      state: 'open',
      since: 1000,
      until: 31_000,
      holds: 1,
      cause: { code: 'http_503', group: '1-9c2f', attempts: 10, failed: 6 },
    })
    expect(startsLeft(gate, NO_PROBES, 30_999, never)).toBe(0)
    expect(startsLeft(gate, NO_PROBES, 31_000, never)).toBe(1)
  })

  it('holds for twice as long with each failed probe, up to ten minutes', () => {
    let gate = judge(NEW_GATE, { recent: recent(10, 10) }, 0)
    const holds = [gate.until]
    for (let n = 0; n < 7; n++) {
      const now = gate.until
      gate = judge(afterStarts(gate, 1, now), { probes: { ok: 0, failed: 1, none: 0 } }, now)
      holds.push(gate.until - now)
    }
    expect(holds).toEqual([30_000, 60_000, 120_000, 240_000, 480_000, 600_000, 600_000, 600_000])
    expect(gate.since).toBe(0)
  })

  it('lets one task through, two more for each that succeeded, and one for each that failed or gave no answer', () => {
    const gate = judge(NEW_GATE, { recent: recent(10, 10) }, 0)
    const at = (count: number, probes = NO_PROBES) =>
      startsLeft(afterStarts(gate, count, 30_000), probes, 30_000, never)
    expect(at(1)).toBe(0)
    expect(at(1, { ok: 1, failed: 0, none: 0 })).toBe(2)
    expect(at(1, { ok: 0, failed: 0, none: 1 })).toBe(1)
    expect(at(3, { ok: 2, failed: 1, none: 0 })).toBe(3)
  })

  it('lets no more through because tasks from before were handed back', () => {
    const gate = afterStarts(judge(NEW_GATE, { recent: recent(10, 10) }, 0), 1, 30_000)
    expect(startsLeft(gate, { ok: 0, failed: 0, none: 50 }, 30_000, never)).toBe(1)
  })

  it('closes once 256 may run at once, and counts afresh under a new round', () => {
    const gate = judge(NEW_GATE, { recent: recent(10, 10) }, 0)
    expect(judge(gate, { probes: { ok: 254, failed: 0, none: 0 } }, 30_000)).toBe(gate)
    const closed = judge(gate, { probes: { ok: 255, failed: 9, none: 0 } }, 30_000)
    expect(gateRecord(closed, 30_000)).toMatchObject({ state: 'closed', holds: 0 })
    expect(startsLeft(closed, NO_PROBES, 30_000, never)).toBe(Infinity)
    expect(judge(closed, { recent: recent(10, 10) }, 40_000).round).toBe(2)
  })

  it('closes a window after its hold, with as many successes as it judges by: little work would never end the ramp', () => {
    const gate = judge(NEW_GATE, { recent: recent(10, 10) }, 0)
    const probes = { ok: BUDGET.minAttempts, failed: 1, none: 0 }
    const end = gate.until + BUDGET.windowMs
    expect(judge(gate, { probes }, end - 1)).toBe(gate)
    expect(judge(gate, { probes: { ...probes, ok: probes.ok - 1 } }, end)).toBe(gate)
    expect(gateRecord(judge(gate, { probes }, end), end).state).toBe('closed')
  })

  it('is not judged while it is held, whatever still fails', () => {
    const gate = judge(NEW_GATE, { recent: recent(10, 10) }, 0)
    expect(judge(gate, { recent: recent(20, 20) }, 29_999)).toBe(gate)
    expect([isProbe(gate, 29_999), isProbe(gate, 30_000), isProbe(NEW_GATE, 30_000)]).toEqual([false, true, false])
  })

  it('tries again after a minute if the end of its probe was never told and nothing runs', () => {
    const gate = afterStarts(judge(NEW_GATE, { recent: recent(10, 10) }, 0), 1, 30_000)
    expect(startsLeft(gate, NO_PROBES, 89_999, () => true)).toBe(0)
    expect(startsLeft(gate, NO_PROBES, 90_000, () => false)).toBe(0)
    expect(startsLeft(gate, NO_PROBES, 90_000, () => true)).toBe(1)
  })
})

describe('attempts', () => {
  const failed = (failure: string) => ({ answer: 'failed', failure, isProbe: false, count: 1 }) as const
  const ok = { answer: 'ok', failure: '', isProbe: false, count: 3 } as const

  it('are counted within the window, with the commonest failure', () => {
    let counts = counted(NO_COUNTS, failed('__proto__'), 60_000, 1000)
    counts = counted(counts, failed('b'), 60_000, 20_000)
    counts = counted(counts, failed('b'), 60_000, 21_000)
    counts = counted(counts, ok, 60_000, 22_000)
    expect(recentOf(counts, 60_000, 59_999)).toEqual({ attempts: 6, failed: 3, failure: 'b' })
    expect(recentOf(counts, 60_000, 60_000)).toEqual({ attempts: 5, failed: 2, failure: 'b' })
    expect(recentOf(counts, 60_000, 80_000)).toEqual({ attempts: 0, failed: 0, failure: '' })
  })

  it('tell a few failures of a step apart, and count the rest together', () => {
    let counts = NO_COUNTS
    for (let n = 0; n < 500; n++) counts = counted(counts, failed(failureOf(`E${n}`, undefined)), 60_000, 1000)
    for (let n = 0; n < 9; n++) counts = counted(counts, failed(failureOf('E7', undefined)), 60_000, 1000)
    expect(Object.keys(counts.buckets[0]?.failed ?? {})).toHaveLength(51)
    const { attempts, failed: failures, failure } = recentOf(counts, 60_000, 1000)
    expect({ attempts, failures, failure }).toEqual({ attempts: 509, failures: 509, failure: '["E7",null]' })
  })

  it('keep no more steps than the window has', () => {
    let counts = NO_COUNTS
    for (let now = 0; now < 3_600_000; now += 5000) counts = counted(counts, ok, 60_000, now)
    expect(counts.buckets).toHaveLength(6)
  })

  it('without an answer count only as probes', () => {
    const none = { answer: 'none', failure: '', isProbe: false, count: 1 } as const
    expect(counted(NO_COUNTS, none, 60_000, 0)).toBe(NO_COUNTS)
    expect(counted(NO_COUNTS, { ...none, isProbe: true }, 60_000, 0)).toEqual({
      buckets: [],
      probes: { ok: 0, failed: 0, none: 1 },
    })
  })
})
