import { expect, it } from 'vitest'
import { quietEnvironment } from '../../../test/command.js'
import type { Snapshot } from '../../pipeline/index.js'
import { consoleOf } from '../terminal/console.js'
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
const LOG = consoleOf(quietEnvironment())
const TERMINAL = consoleOf(quietEnvironment({ isTTY: { stdin: true, stdout: true, stderr: true }, columns: 50 }))

it('shows rate, time left, retries and dead items of a total that is known', () => {
  expect(progressText(SNAPSHOT, 1700, LOG)).toBe(
    '██████████░░░░░░░░░░ 50 %  850 of 1 700  123/s  7s left  12 retries  20 dead',
  )
})

it('trusts the run once its source was read to its end, and promises no total before', () => {
  expect(progressText({ ...SNAPSHOT, isRead: true }, 1700, LOG)).toContain('85 %  850 of 1 000')
  expect(progressText(SNAPSHOT, undefined, LOG)).toBe('850 ended  123/s  12 retries  20 dead')
})

it('says that the run is paused, and fits the terminal', () => {
  expect(progressText({ ...SNAPSHOT, status: 'paused', perSecond: 0 }, undefined, LOG)).toMatch(/20 dead {2}paused$/)
  expect(progressText(SNAPSHOT, 1700, TERMINAL)).toHaveLength(49)
})
