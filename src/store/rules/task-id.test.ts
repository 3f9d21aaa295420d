import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { taskIds } from './task-id.js'

describe('a maker of task ids', () => {
  it.each([0, Date.UTC(2026, 0, 2), Date.UTC(3084, 0, 1)])('makes ids of 22 digits that tell their time: %d', now => {
    const id = taskIds()(now)
    expect(id).toMatch(/^[0-9a-v]{22}$/)
    expect(Number.parseInt(id.slice(0, 9), 32)).toBe(now)
  })

  it('orders what it made in one millisecond, and never makes an id twice', () => {
    const next = taskIds()
    const ids = Array.from({ length: 50_000 }, () => next(1000))
    expect(new Set(ids.map(id => id.slice(0, 9))).size).toBe(1)
    expect([...ids].sort()).toEqual(ids)
    expect(new Set(ids).size).toBe(ids.length)
  })

  it('goes on in the next millisecond when its counter is at its end', () => {
    const random = vi.spyOn(Math, 'random').mockReturnValue(2 - 2 ** -20)
    onTestFinished(() => random.mockRestore())
    const next = taskIds()
    const ids = Array.from({ length: 50 }, () => next(1000))
    expect([...ids].sort()).toEqual(ids)
    expect(new Set(ids.map(id => Number.parseInt(id.slice(0, 9), 32)))).toEqual(new Set([1000, 1001, 1002, 1003]))
  })

  it('orders by time, also when the clock goes back or has fractions', () => {
    const next = taskIds()
    const ids = [next(5000.7), next(5001), next(4000), next(5001.2), next(9000)]
    expect([...ids].sort()).toEqual(ids)
  })

  it('makes other ids than the next maker does at the same moment', () => {
    const [one, other] = [taskIds(), taskIds()]
    const ids = Array.from({ length: 1000 }, () => [one(1), other(1)]).flat()
    expect(new Set(ids).size).toBe(2000)
  })
})
