import { describe, expect, it } from 'vitest'
import type { RunSettings } from '../../contract/run-store.js'
import { noTasks } from '../task-state.js'
import {
  checkBudget,
  type Exceeded,
  type Figures,
  figuresOf,
  freshBudget,
  nextCheckAt,
  type RunFigures,
  withoutRedriven,
} from './budget.js'
import { runStatus } from './run-status.js'

const SETTINGS: RunSettings = {
  failureBudget: 0.1,
  stageBudgets: {},
  checkInterval: 1,
  budgetWindow: undefined,
  completedFrom: 0.95,
  partialFrom: 0.5,
  maxUnfinished: 1000,
  concurrency: {},
}

const figures = (processed: number, dead: number): Figures => ({ at: processed, processed, dead, stages: {} })

/** Lets items end one by one, and checks after each. Returns the most checks kept, and the first excess. */
function run(settings: RunSettings, count: number, isDead: (n: number) => boolean) {
  let budget: RunFigures = freshBudget(figures(0, 0))
  let most = 0
  let first: Exceeded | undefined
  let dead = 0
  for (let n = 1; n <= count && first === undefined; n++) {
    if (isDead(n)) dead++
    const result = checkBudget(budget, settings, figures(n, dead))
    budget = result.budget
    first = result.exceeded
    most = Math.max(most, budget.checks.length)
  }
  return { most, first }
}

describe('a sliding window', () => {
  const settings = { ...SETTINGS, budgetWindow: 1000, failureBudget: 0.5 }

  it('keeps few checks, however often it is checked', () => {
    const { most, first } = run(settings, 20_000, n => n % 3 === 0)
    expect(first).toBeUndefined()
    expect(most).toBeGreaterThan(10)
    expect(most).toBeLessThanOrEqual(22)
  })

  it('is as long as asked for, and at most a twentieth longer', () => {
    const { first } = run(settings, 20_000, n => n > 10_000)
    expect(first?.processed).toBeGreaterThanOrEqual(1000)
    expect(first?.processed).toBeLessThanOrEqual(1050)
    expect(run({ ...settings, budgetWindow: undefined }, 19_000, n => n > 10_000).first).toBeUndefined()
  })
})

it('a budget is checked at every multiple of its interval, counted from where it began', () => {
  const settings = { ...SETTINGS, checkInterval: 100 }
  const budget = freshBudget(figures(1050, 500))
  expect(nextCheckAt(budget, settings)).toBe(1150)
  expect(checkBudget(budget, settings, figures(1149, 599)).exceeded).toBeUndefined()
  const { exceeded, budget: next } = checkBudget(budget, settings, figures(1160, 510))
  expect(exceeded).toBeUndefined()
  expect(nextCheckAt(next, settings)).toBe(1250)
  expect(checkBudget(next, settings, figures(1250, 521)).exceeded).toMatchObject({
    processed: 200,
    dead: 21,
    rate: 0.105,
  })
})

it('items that were redriven are no longer counted, and hide none of those that die later', () => {
  const settings = { ...SETTINGS, checkInterval: 10 }
  const { budget } = checkBudget(freshBudget(figures(100, 80)), settings, figures(20, 0))
  expect(nextCheckAt(budget, settings)).toBe(30)
  expect(checkBudget(budget, settings, figures(30, 10)).exceeded).toMatchObject({ processed: 10, dead: 10 })
})

it('an item has left a stage when it ended there, and when it went on', () => {
  const stages = ['a', 'b', 'c']
  const settings = { ...SETTINGS, stageBudgets: { b: 0.5, gone: 0.5 } }
  const counts = new Map([
    ['a', { ...noTasks(), waiting: 7, dead: 1 }],
    ['b', { ...noTasks(), waiting: 5, running: 1, dead: 2, skipped: 3, cancelled: 4 }],
    ['c', { ...noTasks(), waiting: 1, running: 2, succeeded: 4, dead: 8 }],
  ])
  expect(figuresOf({ stages, settings }, counts, 5)).toEqual({
    at: 5,
    processed: 18,
    dead: 11,
    stages: { b: { left: 20, dead: 2 }, gone: { left: 0, dead: 0 } },
  })
})

it('the status of a run is decided exactly at its thresholds', () => {
  const status = (succeeded: number, skipped: number, dead: number) => runStatus({ succeeded, skipped, dead }, SETTINGS)
  expect([status(19, 0, 1), status(94, 1, 5), status(949, 0, 51)]).toEqual([
    'completed',
    'completed',
    'partial_success',
  ])
  expect([status(1, 0, 1), status(0, 1, 1), status(49, 0, 51)]).toEqual([
    'partial_success',
    'partial_success',
    'failed',
  ])
  expect([status(0, 0, 0), status(0, 0, 1)]).toEqual(['completed', 'failed'])
})

describe('redriven items', () => {
  const run = { stages: ['a', 'b', 'c'], settings: { ...SETTINGS, stageBudgets: { a: 0.1, b: 0.1, c: 0.1 } } }
  const counts = new Map([['b', { ...noTasks(), dead: 5, succeeded: 5 }]])
  const then = (at: number): Figures => figuresOf(run, counts, at)
  const kept: RunFigures = { since: then(100), checked: 10, checks: [then(200), then(300)] }

  it('leave the figures from after their death', () => {
    const { since, checks } = withoutRedriven(kept, run, [{ stage: 'b', diedAt: 150, to: 'b' }])
    expect(since).toEqual(then(100))
    for (const { processed, dead, stages } of checks) {
      expect([processed, dead]).toEqual([9, 4])
      expect(stages).toEqual({ a: { left: 10, dead: 0 }, b: { left: 9, dead: 4 }, c: { left: 0, dead: 0 } })
    }
  })

  it('have not left the stages that they have yet to pass', () => {
    const earlier = withoutRedriven(kept, run, [{ stage: 'b', diedAt: 50, to: 'a' }])
    expect(earlier.since.stages).toEqual({ a: { left: 9, dead: 0 }, b: { left: 9, dead: 4 }, c: { left: 0, dead: 0 } })
    const later = withoutRedriven(kept, run, [{ stage: 'b', diedAt: 50, to: 'c' }])
    expect(later.since.stages).toEqual({ a: { left: 10, dead: 0 }, b: { left: 10, dead: 4 }, c: { left: 0, dead: 0 } })
  })
})
