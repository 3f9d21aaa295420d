import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { reporter } from './progress.js'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['performance'] })
})
afterEach(() => {
  vi.useRealTimers()
})

/** The seconds at which lines were printed about something that takes an hour. */
function reportedAt(isTerminal: boolean, line: (second: number) => string): number[] {
  const seconds: number[] = []
  let second = 0
  const report = reporter({
    console: { say: () => seconds.push(second) },
    environment: { isTTY: { stderr: isTerminal } },
  })
  for (; second < 3600; second++) {
    report(() => line(second))
    vi.advanceTimersByTime(1000)
  }
  return seconds
}

it('reports at growing intervals without a terminal, and each second on one', () => {
  const text = (second: number) => `${second} of 3600`
  const [first, second, third, ...more] = reportedAt(false, text)
  expect([first, second, third]).toEqual([1, 3, 7])
  expect(more.length).toBeLessThan(20)
  expect(reportedAt(true, text)).toHaveLength(3599)
})

it('reports nothing that it has reported last', () => {
  expect(reportedAt(false, second => (second < 100 ? 'reading' : 'writing'))).toEqual([1, 100])
})
