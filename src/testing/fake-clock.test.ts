import { describe, expect, it, vi } from 'vitest'
import { retry } from '../call/index.js'
import type { Duration } from '../policy/index.js'
import { sleep } from '../time/index.js'
import { fakeClock } from './index.js'

describe('a fake clock', () => {
  it('stands still until it is told to go on', async () => {
    const clock = fakeClock()
    const woken = vi.fn()
    clock.setTimer({ wake: woken }, 1)
    await new Promise(resolve => setTimeout(resolve, 5))

    expect(clock.monotonic()).toBe(0)
    expect(clock.now()).toBe(Date.UTC(2000, 0, 1))
    expect(woken).not.toHaveBeenCalled()
  })

  it('starts where it is told to', () => {
    expect(fakeClock(0).now()).toBe(0)
    expect(fakeClock(new Date('2024-02-29T12:00:00Z')).now()).toBe(Date.UTC(2024, 1, 29, 12))
  })

  it('moves both its times by what it advances', async () => {
    const clock = fakeClock(1000)
    await clock.advance('1.5s')
    expect(clock.monotonic()).toBe(1500)
    expect(clock.now()).toBe(2500)
  })

  it('wakes sleepers in the order of their times, each at its own time', async () => {
    const clock = fakeClock()
    const woken: [name: string, at: number][] = []
    const timer = (name: string, delayMs: number) =>
      clock.setTimer({ wake: () => woken.push([name, clock.monotonic()]) }, delayMs)
    timer('late', 300)
    timer('early', 100)
    timer('early, but set later', 100)
    timer('too late', 301)

    await clock.advance(300)
    expect(woken).toEqual([
      ['early', 100],
      ['early, but set later', 100],
      ['late', 300],
    ])
    expect(clock.timers).toBe(1)
  })

  it('wakes what is set while it advances, if its time comes within', async () => {
    const clock = fakeClock()
    const woken: number[] = []
    const again = () => {
      woken.push(clock.monotonic())
      clock.setTimer({ wake: again }, 40)
    }
    clock.setTimer({ wake: again }, 40)
    await clock.advance(100)
    expect(woken).toEqual([40, 80])
    expect(clock.monotonic()).toBe(100)
  })

  it('lets what a timer wakes run before the next one fires', async () => {
    const clock = fakeClock()
    const log: string[] = []
    const sleeper = async (name: string, delayMs: number) => {
      await sleep(delayMs, clock)
      for (let i = 0; i < 20; i++) await null
      await new Promise(resolve => setImmediate(resolve))
      log.push(`${name} at ${clock.monotonic()}`)
    }
    void sleeper('first', 10)
    void sleeper('second', 20)
    await clock.advance(30)
    expect(log).toEqual(['first at 10', 'second at 20'])
  })

  it('does not wake a sleeper whose timer was cleared, even by the sleeper before it', async () => {
    const clock = fakeClock()
    const woken = vi.fn()
    const second = clock.setTimer({ wake: woken }, 20)
    clock.setTimer({ wake: () => clock.clearTimer(second) }, 10)
    await clock.runAll()
    expect(woken).not.toHaveBeenCalled()
    expect(clock.timers).toBe(0)
  })

  it('takes no notice of a timer that is cleared twice or after it fired', async () => {
    const clock = fakeClock()
    const [fired, cleared] = [clock.setTimer({ wake() {} }, 1), clock.setTimer({ wake() {} }, 1000)]
    clock.clearTimer(cleared)
    clock.clearTimer(cleared)
    await clock.runAll()
    expect(() => clock.clearTimer(fired)).not.toThrow()
  })

  it('runs from timer to timer until none is left', async () => {
    const clock = fakeClock()
    const done = sleep(86_400_000, clock).then(() => sleep(86_400_000, clock))
    await clock.runAll()
    await done
    expect(clock.monotonic()).toBe(2 * 86_400_000)
    expect(clock.timers).toBe(0)
  })

  it('has its wall clock set without timers or measurements noticing', async () => {
    const clock = fakeClock()
    const woken = vi.fn()
    clock.setTimer({ wake: woken }, 100)
    await clock.advance(50)

    clock.setNow(new Date('1999-01-01T00:00:00Z'))
    expect(clock.now()).toBe(Date.UTC(1999, 0, 1))
    expect(clock.monotonic()).toBe(50)
    await clock.advance(50)
    expect(woken).toHaveBeenCalledTimes(1)
    expect(clock.now()).toBe(Date.UTC(1999, 0, 1) + 50)
  })

  it('never goes back, even if what it wakes advances it further than it was going', async () => {
    const clock = fakeClock()
    clock.setTimer({ wake: () => void clock.advance(100) }, 10)
    await clock.advance(20)
    const reached = clock.monotonic()
    await clock.runAll()
    expect(clock.monotonic()).toBeGreaterThanOrEqual(reached)
    expect(clock.monotonic()).toBeGreaterThanOrEqual(110)
  })

  it.each([[-1], [Number.NaN], [Infinity], ['soon'], [undefined]])('refuses to advance by %s', async duration => {
    const clock = fakeClock()
    await expect(clock.advance(duration as Duration)).rejects.toThrow(RangeError)
    expect(clock.monotonic()).toBe(0)
  })

  it('takes a call through a year of retries', async () => {
    const clock = fakeClock()
    const fn = vi.fn(() => Promise.reject(new Error('down')))
    const call = retry(fn, { attempts: 366, backoff: { kind: 'fixed', base: '1d' }, jitter: 'none' }, { clock })
    const [result] = await Promise.all([call.catch(error => error), clock.runAll()])
    expect(result).toMatchObject({ reason: 'attempts_exhausted' })
    expect(fn).toHaveBeenCalledTimes(366)
    expect(clock.monotonic()).toBe(365 * 86_400_000)
  })
})
