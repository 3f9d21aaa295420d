import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { OperationRecord } from '../../store/internal.js'
import { nextStep, outstanding, type StepFacts } from './next-step.js'

const NO_TALLY = { passed: 0, failed: 0, unanswered: 0, succeeded: 0, skipped: 0, dead: 0, cancelled: 0 }
const PROGRESS = { isRead: false, canary: [], window: 100, judged: { passed: 0, failed: 0 }, refused: {} }
const FACTS: StepFacts = {
  now: 1_000_000,
  hasWorkers: true,
  isWaiting: false,
  canary: { passed: 0, failed: 0, pending: 0 },
}

function operation(more: Partial<OperationRecord> = {}): OperationRecord {
  return {
    id: 'op-1',
    act: 'redrive',
    set: { filter: {}, until: 0 },
    by: { who: 'ann' },
    settings: {},
    status: 'running',
    reason: undefined,
    stoppedBy: undefined,
    undoneBy: undefined,
    progress: PROGRESS,
    moved: 0,
    undone: 0,
    tally: NO_TALLY,
    driver: undefined,
    createdAt: 0,
    changedAt: 0,
    endedAt: undefined,
    ...more,
  }
}

const canary = (more: Partial<OperationRecord> = {}) =>
  operation({ status: 'canary', settings: { canary: 10, stopAbove: 0.2 }, ...more })

it('a canary moves as many members as it is to have, and replaces those that give no answer', () => {
  expect(nextStep(canary(), FACTS)).toEqual({ type: 'move', limit: 10, isCanary: true })
  const ids = Array.from({ length: 10 }, (_, n) => String(n))
  const deferred = { ...FACTS, canary: { passed: 4, failed: 0, pending: 4 } }
  const under = canary({ progress: { ...PROGRESS, canary: ids } })
  expect(nextStep(under, deferred)).toEqual({ type: 'move', limit: 2, isCanary: true })
})

it('a canary stops at the failure that is one too many, and not before', () => {
  const answers = (passed: number, failed: number) => ({
    ...FACTS,
    canary: { passed, failed, pending: 10 - passed - failed },
  })
  expect(nextStep(canary(), answers(3, 2)).type).toBe('wait')
  expect(nextStep(canary(), answers(0, 3))).toEqual({
    type: 'stop',
    reason: 'The first attempt failed for 3 of the first 3 members, above 20 %.',
  })
  expect(nextStep(canary(), answers(8, 2))).toEqual({ type: 'enter', status: 'running', window: 10 })
})

it('a canary without an answer in time stops, and never goes on', () => {
  const waiting = canary({ progress: { ...PROGRESS, canary: ['a'], canarySince: 1 } })
  const late = { ...FACTS, now: 600_001, canary: { passed: 9, failed: 0, pending: 1 } }
  expect(nextStep(waiting, { ...late, now: 600_000 }).type).toBe('wait')
  expect(nextStep(waiting, late)).toEqual({ type: 'stop', reason: 'No answer from 1 of 10 members in time.' })
})

it('a canary moves nothing while no worker could answer', () => {
  const alone = { ...FACTS, hasWorkers: false }
  expect(nextStep(canary(), alone)).toEqual({ type: 'stop', reason: 'No worker is running, and a canary needs one.' })
  // A worker that is restarted answers later.
  const moved = canary({ progress: { ...PROGRESS, canary: ['a'], canarySince: FACTS.now } })
  expect(nextStep(moved, { ...alone, canary: { passed: 0, failed: 0, pending: 10 } }).type).toBe('wait')
})

it('a set that is smaller than its canary goes on if its members are good', () => {
  const small = canary({ progress: { ...PROGRESS, canary: ['a'], isRead: true } })
  expect(nextStep(small, { ...FACTS, canary: { passed: 1, failed: 0, pending: 0 } }).type).toBe('enter')
  expect(nextStep(small, FACTS)).toEqual({ type: 'stop', reason: 'None of 1 members made a counted attempt.' })
  const empty = canary({ progress: { ...PROGRESS, isRead: true } })
  expect(nextStep(empty, FACTS).type).toBe('enter')
})

it('no more members are unanswered than the window allows', () => {
  fc.assert(
    fc.property(
      fc.record({
        moved: fc.nat(5000),
        passed: fc.nat(5000),
        failed: fc.nat(5000),
        window: fc.integer({ min: 1, max: 10_000 }),
        perSecond: fc.option(fc.integer({ min: 1, max: 1000 }), { nil: undefined }),
      }),
      ({ moved, passed, failed, window, perSecond }) => {
        const tally = { ...NO_TALLY, passed, failed }
        const judged = { passed, failed }
        const record = operation({ moved, tally, settings: { perSecond }, progress: { ...PROGRESS, window, judged } })
        const next = nextStep(record, FACTS)
        if (next.type !== 'move') return outstanding(record) >= window
        return next.limit >= 1 && next.limit + outstanding(record) <= Math.max(window, 1)
      },
    ),
  )
})

it('the window doubles while it goes well, and halves from half of the threshold on', () => {
  const after = (passed: number, failed: number) =>
    nextStep(
      operation({
        settings: { stopAbove: 0.2 },
        moved: passed + failed,
        tally: { ...NO_TALLY, passed, failed },
        progress: { ...PROGRESS, window: 40 },
      }),
      FACTS,
    )
  expect(after(40, 0)).toEqual({ type: 'enter', status: 'running', window: 80 })
  expect(after(36, 4)).toEqual({ type: 'enter', status: 'running', window: 80 })
  expect(after(35, 5)).toEqual({ type: 'enter', status: 'running', window: 20 })
  expect(after(31, 9)).toEqual({
    type: 'stop',
    reason: 'The first attempt failed for 9 of the last 40 members, above 20 %.',
  })
})

it('a rate spreads the moves, whatever the window', () => {
  const moved = (lastMove: OperationRecord['progress']['lastMove']) =>
    nextStep(operation({ settings: { perSecond: 50 }, progress: { ...PROGRESS, lastMove } }), FACTS)
  expect(moved(undefined)).toEqual({ type: 'move', limit: 5, isCanary: false })
  expect(moved({ at: 1_000_000 - 60, count: 5 })).toEqual({ type: 'wait', ms: 40 })
  expect(moved({ at: 1_000_000 - 100, count: 5 })).toEqual({ type: 'move', limit: 5, isCanary: false })
})

it('keeps its rate although each step takes longer than the time between two, without a burst after a rest', () => {
  let now = 1_000_000
  let moved = 0
  let lastMove: OperationRecord['progress']['lastMove']
  for (const stepMs of Array.from({ length: 50 }, () => 200)) {
    const next = nextStep(operation({ settings: { perSecond: 25 }, progress: { ...PROGRESS, lastMove } }), {
      ...FACTS,
      now,
    })
    if (next.type === 'move') {
      moved += next.limit
      lastMove = { at: now, count: next.limit }
    }
    now += stepMs
  }
  expect(moved).toBeGreaterThan(240)
  expect(moved).toBeLessThanOrEqual(250)
  const rested = operation({ settings: { perSecond: 25 }, progress: { ...PROGRESS, lastMove } })
  expect(nextStep(rested, { ...FACTS, now: now + 3_600_000 })).toMatchObject({ limit: 25 })
})

it('does not wait for the time of the last move to come again after the clock was set back', () => {
  const lastMove = { at: 1_000_000 + 3_600_000, count: 5 }
  for (const perSecond of [undefined, 50])
    expect(nextStep(operation({ settings: { perSecond }, progress: { ...PROGRESS, lastMove } }), FACTS).type).toBe(
      'move',
    )
})

it('without a worker nobody answers, so nothing is held back', () => {
  const full = operation({ moved: 100_000 })
  expect(nextStep(full, FACTS).type).toBe('wait')
  expect(nextStep(full, { ...FACTS, hasWorkers: false })).toEqual({ type: 'move', limit: 2000, isCanary: false })
})

it('an operation without a canary stops when more than half of the latest answers are failures', () => {
  const after = (passed: number, failed: number, stopAbove?: number) => {
    const settings = stopAbove === undefined ? {} : { stopAbove }
    return nextStep(operation({ settings, moved: 100, tally: { ...NO_TALLY, passed, failed } }), FACTS)
  }
  expect(after(10, 10).type).toBe('move')
  expect(after(9, 11)).toEqual({
    type: 'stop',
    reason: 'The first attempt failed for 11 of the last 20 members, above 50 %.',
  })
  expect(after(0, 99, 1).type).toBe('move')
})

it('no more members are moved than the limit allows', () => {
  const limited = (moved: number) =>
    nextStep(operation({ settings: { limit: 30 }, moved, tally: { ...NO_TALLY, passed: moved } }), FACTS)
  expect(limited(0)).toEqual({ type: 'move', limit: 30, isCanary: false })
  expect(limited(25)).toEqual({ type: 'move', limit: 5, isCanary: false })
  expect(limited(30)).toEqual({ type: 'enter', status: 'settling' })
  const few = canary({ settings: { canary: 10, limit: 4 } })
  expect(nextStep(few, FACTS)).toEqual({ type: 'move', limit: 4, isCanary: true })
})

it('a canary that replaces members, or begins anew, stays within the limit', () => {
  const settings = { canary: 10, limit: 12 }
  const ids = Array.from({ length: 10 }, (_, n) => `t${n}`)
  const seven = { ...FACTS, canary: { passed: 7, failed: 0, pending: 0 } }
  const moved = canary({ settings, moved: 10, progress: { ...PROGRESS, canary: ids } })
  expect(nextStep(moved, seven)).toEqual({ type: 'move', limit: 2, isCanary: true })
  const full = canary({ settings, moved: 12, progress: { ...PROGRESS, canary: ids } })
  expect(nextStep(full, seven)).toMatchObject({ type: 'enter', status: 'running' })
  expect(nextStep(full, FACTS)).toEqual({ type: 'stop', reason: 'None of 10 members made a counted attempt.' })
  const anew = canary({ settings, moved: 12, progress: { ...PROGRESS, canary: [] } })
  expect(nextStep(anew, FACTS)).toMatchObject({ type: 'enter', status: 'running' })
})

it('an operation that waits for a fix starts once it is there, and goes back when it is gone', () => {
  const waiting = { ...FACTS, isWaiting: true }
  expect(nextStep(operation({ status: 'planned' }), waiting).type).toBe('wait')
  expect(nextStep(operation({ status: 'planned' }), FACTS)).toEqual({ type: 'enter', status: 'running' })
  expect(nextStep(canary({ status: 'planned' }), FACTS)).toEqual({ type: 'enter', status: 'canary' })
  const failing = { ...NO_TALLY, failed: 50 }
  for (const status of ['canary', 'running'] as const)
    expect(nextStep(operation({ status, tally: failing }), waiting)).toEqual({ type: 'enter', status: 'planned' })
})

it('a discard waits for no answers, and is done with its last member', () => {
  expect(nextStep(operation({ act: 'discard', moved: 100_000 }), FACTS).type).toBe('move')
  const read = operation({ act: 'discard', moved: 7, progress: { ...PROGRESS, isRead: true } })
  expect(nextStep(read, FACTS)).toEqual({ type: 'enter', status: 'done' })
})

it('a redrive settles until its last member has ended', () => {
  const read = { ...PROGRESS, isRead: true }
  const two = { ...NO_TALLY, passed: 1, failed: 1, succeeded: 1 }
  expect(nextStep(operation({ moved: 2, tally: two, progress: read }), FACTS)).toEqual({
    type: 'enter',
    status: 'settling',
  })
  expect(nextStep(operation({ status: 'settling', moved: 2, tally: two }), FACTS).type).toBe('wait')
  const ended = { ...two, dead: 1 }
  expect(nextStep(operation({ status: 'settling', moved: 2, tally: ended }), FACTS)).toEqual({
    type: 'enter',
    status: 'done',
  })
  expect(nextStep(operation({ status: 'settling', moved: 2, undone: 1, tally: two }), FACTS).type).toBe('enter')
})
