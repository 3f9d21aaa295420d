import { describe, expect, it, vi } from 'vitest'
import { systemClock } from '../time/index.js'
import { within } from './within.js'

const late = () => new Error('Too late')

describe('within', () => {
  it('rejects once the time is up', async () => {
    await expect(within(new Promise(() => {}), 5, late)).rejects.toThrow('Too late')
  })

  it('without an end sets no timer, which would wake up every millisecond', async () => {
    const setTimer = vi.spyOn(systemClock, 'setTimer')
    expect(await within(Promise.resolve(7), Infinity, late)).toBe(7)
    expect(setTimer).not.toHaveBeenCalled()
    setTimer.mockRestore()
  })
})
