import { spawnSync } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { systemClock } from './clock.js'

const DAY = 86_400_000

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

describe('the system clock', () => {
  it('shows the time of day', () => {
    const before = Date.now()
    const now = systemClock.now()
    expect(now).toBeGreaterThanOrEqual(before)
    expect(now).toBeLessThanOrEqual(Date.now())
  })

  it('measures on a scale that never goes back, even if the time of day does', () => {
    const wall = vi.spyOn(Date, 'now').mockReturnValue(0)
    const before = systemClock.monotonic()
    expect(systemClock.now()).toBe(0)
    expect(systemClock.monotonic()).toBeGreaterThanOrEqual(before)
    wall.mockRestore()
  })

  it('wakes a sleeper once, not before it is due by its own measure', async () => {
    const dueAt = systemClock.monotonic() + 3
    const woken = vi.fn()
    await new Promise<void>(resolve => {
      systemClock.setTimer({ wake: () => resolve(woken()) }, 3)
    })
    expect(systemClock.monotonic()).toBeGreaterThanOrEqual(dueAt)
    await new Promise<void>(wake => systemClock.setTimer({ wake }, 3))
    expect(woken).toHaveBeenCalledTimes(1)
  })

  it('does not wake a sleeper whose timer was cleared', async () => {
    const woken = vi.fn()
    systemClock.clearTimer(systemClock.setTimer({ wake: woken }, 1))
    await new Promise<void>(wake => systemClock.setTimer({ wake }, 5))
    expect(woken).not.toHaveBeenCalled()
  })
})

describe("a timer of the machine's clock, in a time of its own", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
  })

  it('is measured in that time, and in real time afterwards', () => {
    const faked = systemClock.monotonic()
    vi.advanceTimersByTime(DAY)
    expect(systemClock.monotonic() - faked).toBe(DAY)
    vi.useRealTimers()
    const before = performance.now()
    const now = systemClock.monotonic()
    expect(now).toBeGreaterThanOrEqual(before)
    expect(now).toBeLessThanOrEqual(performance.now())
  })

  it('wakes each sleeper once, within a millisecond after it is due', () => {
    const woken: [delayMs: number, at: number][] = []
    const start = performance.now()
    for (const delayMs of [30, 10, 20, 10, 40]) {
      systemClock.setTimer({ wake: () => woken.push([delayMs, performance.now() - start]) }, delayMs)
    }
    vi.advanceTimersByTime(100)
    expect(woken).toEqual([
      [10, 11],
      [10, 11],
      [20, 21],
      [30, 31],
      [40, 41],
    ])
    expect(vi.getTimerCount()).toBe(0)
  })

  it.each([
    ['just over what Node takes', 2 ** 31],
    ['of a month', 30 * DAY],
    ['of ten years', 3650 * DAY],
  ])('a delay %s ends in its time, not at once', (_, delayMs) => {
    const woken = vi.fn()
    systemClock.setTimer({ wake: woken }, delayMs)
    vi.advanceTimersByTime(delayMs - 1)
    expect(woken).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1000)
    expect(woken).toHaveBeenCalledTimes(1)
    expect(vi.getTimerCount()).toBe(0)
  })

  it.each([[0], [-5], [Number.NaN]])('a delay of %s is over at once', delayMs => {
    const woken = vi.fn()
    systemClock.setTimer({ wake: woken }, delayMs)
    vi.advanceTimersByTime(1)
    expect(woken).toHaveBeenCalledTimes(1)
  })

  it('a sleeper that throws is not woken again', () => {
    const wake = vi.fn(() => {
      throw new Error('a bug of the sleeper')
    })
    systemClock.setTimer({ wake }, 10)
    expect(() => vi.advanceTimersByTime(11)).toThrow('a bug of the sleeper')
    vi.advanceTimersByTime(100)
    expect(wake).toHaveBeenCalledTimes(1)
  })

  it('may be cleared twice, or after it woke its sleeper, or half-way through a long delay', () => {
    const woken = [vi.fn(), vi.fn(), vi.fn()]
    const [first, second, long] = woken.map((wake, i) => systemClock.setTimer({ wake }, [10, 20, 60 * DAY][i] ?? 0))
    if (first === undefined || second === undefined || long === undefined) throw new Error('not set')
    systemClock.clearTimer(second)
    systemClock.clearTimer(second)
    vi.advanceTimersByTime(50 * DAY)
    systemClock.clearTimer(first)
    systemClock.clearTimer(long)
    vi.advanceTimersByTime(50 * DAY)
    expect(woken.map(wake => wake.mock.calls.length)).toEqual([1, 0, 0])
  })
})

describe("a timer of the machine's clock, in real time", () => {
  it('does not wake a sleeper before it is due by the clock that it measures with', async () => {
    for (let i = 0; i < 20; i++) {
      const dueAt = performance.now() + 1.5
      await new Promise<void>(wake => systemClock.setTimer({ wake }, 1.5))
      expect(performance.now()).toBeGreaterThanOrEqual(dueAt)
    }
  })

  it('does not wake a sleeper at once whose delay Node would not take', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const woken = vi.fn()
    const timers = [2 ** 31 - 2, 2 ** 31 - 1, 2 ** 31].map(delayMs => systemClock.setTimer({ wake: woken }, delayMs))
    await new Promise<void>(wake => systemClock.setTimer({ wake }, 10))
    expect(woken).not.toHaveBeenCalled()
    expect(warned).not.toHaveBeenCalled()
    for (const timer of timers) systemClock.clearTimer(timer)
  })
})

describe.each(['systemClock', 'queueClock'])('a process with timers of the %s', { timeout: 30_000 }, name => {
  /** Runs code in a process of its own, to its end. One that does not end is killed. */
  function run(code: string) {
    const time = JSON.stringify(new URL('index.ts', import.meta.url).href)
    const retry = JSON.stringify(new URL('../call/retry.ts', import.meta.url).href)
    const script = `
      import { ${name} as clock } from ${time}
      import { retry } from ${retry}
      const say = text => ({ wake: () => console.log(text) })
      ${code}`
    const { status, signal, stdout, stderr } = spawnSync(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '--eval', script],
      { encoding: 'utf8', timeout: 20_000 },
    )
    return { status, signal, said: stdout.trim(), stderr }
  }
  const ended = { status: 0, signal: null, stderr: '' }

  it('ends at once when nothing waits any more, however far away the timer was', () => {
    expect(run(`clock.clearTimer(clock.setTimer(say('late'), 3_600_000))`)).toEqual({ ...ended, said: '' })
  })

  it('ends at once when a call with a long timeout has succeeded', () => {
    const code = `console.log(await retry(async () => 'done', { timeout: '1h' }, { clock }))`
    expect(run(code)).toEqual({ ...ended, said: 'done' })
  })

  it('is kept alive by a call that waits for its next attempt', () => {
    const code = `
      let calls = 0
      retry(() => { if (++calls < 3) throw new Error('down'); console.log('called three times') },
            { backoff: { kind: 'fixed', base: 20 }, jitter: 'none' }, { clock })`
    expect(run(code)).toEqual({ ...ended, said: 'called three times' })
  })

  it('is kept alive by a sleeper that came after everyone had left', () => {
    const code = `
      clock.clearTimer(clock.setTimer(say('never'), 20))
      clock.setTimer(say('woken'), 40)`
    expect(run(code)).toEqual({ ...ended, said: 'woken' })
  })
})
