import { getEventListeners } from 'node:events'
import { describe, expect, it, vi } from 'vitest'
import { fakeClock } from '../testing/index.js'
import { systemClock } from './clock.js'
import { sleep } from './sleep.js'

const listeners = (signal: AbortSignal) => getEventListeners(signal, 'abort').length

describe('sleep', () => {
  it('resolves when its time has come, not before', async () => {
    const clock = fakeClock()
    const woken = vi.fn()
    void sleep(1000, clock).then(woken)

    await clock.advance(999)
    expect(woken).not.toHaveBeenCalled()
    await clock.advance(1)
    expect(woken).toHaveBeenCalledTimes(1)
  })

  it('of the system clock ends', async () => {
    await expect(sleep(2, systemClock)).resolves.toBeUndefined()
  })

  it('of no length sets no timer', async () => {
    const clock = fakeClock()
    const slept = sleep(0, clock)
    expect(clock.timers).toBe(0)
    await slept
  })

  it('rejects at once with the reason when the signal aborts, and leaves no timer', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const slept = sleep(1000, clock, controller.signal)
    expect(clock.timers).toBe(1)

    controller.abort('enough')
    await expect(slept).rejects.toBe('enough')
    expect(clock.timers).toBe(0)
  })

  it('rejects with the reason of a signal that has aborted before, however short it is', async () => {
    const clock = fakeClock()
    await expect(sleep(1000, clock, AbortSignal.abort('too late'))).rejects.toBe('too late')
    await expect(sleep(0, clock, AbortSignal.abort('too late'))).rejects.toBe('too late')
    expect(clock.timers).toBe(0)
  })

  it('of no length is aborted too', async () => {
    const clock = fakeClock()
    // 128 in a row, since one sleeper in 128 without a delay is woken in another way.
    for (let i = 0; i < 128; i++) {
      const controller = new AbortController()
      const slept = sleep(0, clock, controller.signal)
      controller.abort(i)
      await expect(slept).rejects.toBe(i)
    }
  })

  it('leaves no listener on the signal, however it ends', async () => {
    const clock = fakeClock()
    const controller = new AbortController()
    const { signal } = controller
    const ends = sleep(10, clock, signal)
    const short = sleep(0, clock, signal)
    expect(listeners(signal)).toBe(1)
    await clock.advance(10)
    await Promise.all([ends, short])
    expect(listeners(signal)).toBe(0)

    const aborted = sleep(10, clock, signal)
    controller.abort('enough')
    await expect(aborted).rejects.toBe('enough')
    expect(listeners(signal)).toBe(0)
  })
})
