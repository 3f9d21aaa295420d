import { describe, expect, it, vi } from 'vitest'
import { systemClock } from './clock.js'

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
