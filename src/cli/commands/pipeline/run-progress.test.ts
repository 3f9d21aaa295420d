import { expect, it } from 'vitest'
import type { Snapshot } from '../../../pipeline/index.js'
import { progressText } from './run-progress.js'

const SNAPSHOT: Snapshot = {
  run: 'r',
  status: 'running',
  counts: { waiting: 100, running: 50, succeeded: 800, skipped: 30, dead: 20, cancelled: 0 },
  total: 1000,
  ended: 850,
  isRead: false,
  byStage: [],
  perSecond: 123.4,
  leftMs: undefined,
  retries: 12,
  deferrals: 0,
}
const LOG = { isLive: false, messageWidth: Infinity }
const WIDE = { isLive: true, messageWidth: 200 }
const NARROW = { isLive: true, messageWidth: 50 }

it('shows rate, time left, retries and dead items of a total that is known', () => {
  expect(progressText(SNAPSHOT, 1700, WIDE)).toBe(
    '██████████░░░░░░░░░░ 50 %  850 of 1 700  123/s  7s left  12 retries  20 dead',
  )
})

it('is plain in a log', () => {
  expect(progressText(SNAPSHOT, 1700, LOG)).toBe('50 %, 850 of 1 700, 123/s, 7s left, 12 retries, 20 dead')
})

it('trusts the run once its source was read to its end, and promises no total before', () => {
  expect(progressText({ ...SNAPSHOT, isRead: true }, 1700, WIDE)).toContain('85 %  850 of 1 000')
  expect(progressText(SNAPSHOT, undefined, WIDE)).toBe('850 ended  123/s  12 retries  20 dead')
})

it('says that the run is paused, and fits the terminal', () => {
  expect(progressText({ ...SNAPSHOT, status: 'paused', perSecond: 0 }, undefined, WIDE)).toMatch(/20 dead {2}paused$/)
  expect(progressText(SNAPSHOT, 1700, NARROW)).toHaveLength(49)
})
