import { describe, expect, it } from 'vitest'
import { taskIds } from './task-id.js'

describe('a maker of task ids', () => {
  it('makes UUIDs of version 7 that tell their time', () => {
    const id = taskIds()(Date.UTC(2026, 0, 2))
    expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
    expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBe(Date.UTC(2026, 0, 2))
  })

  it('orders what it made in one millisecond, and never makes an id twice', () => {
    const next = taskIds()
    const ids = Array.from({ length: 50_000 }, () => next(1000))
    expect([...ids].sort()).toEqual(ids)
    expect(new Set(ids).size).toBe(ids.length)
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
