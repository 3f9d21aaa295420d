import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { TimerQueue } from './timer-queue.js'

const DAY = 86_400_000

afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

describe('a timer queue, in a time of its own', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  })

  it('wakes each sleeper once, when it is due, in the order of their times', () => {
    const queue = new TimerQueue()
    const woken: [delayMs: number, at: number][] = []
    const start = performance.now()
    for (const delayMs of [30, 10, 20, 10, 40]) {
      queue.add({ wake: () => woken.push([delayMs, performance.now() - start]) }, delayMs)
    }
    vi.advanceTimersByTime(30)
    expect(woken).toEqual([
      [10, 10],
      [10, 10],
      [20, 20],
      [30, 30],
    ])
  })

  it('has one timer of Node, however many sleep', () => {
    const queue = new TimerQueue()
    for (let delayMs = 1; delayMs <= 100; delayMs++) queue.add({ wake() {} }, delayMs)
    for (let delayMs = 100; delayMs >= 1; delayMs--) queue.add({ wake() {} }, delayMs)
    expect(vi.getTimerCount()).toBe(1)
  })

  it('wakes an earlier sleeper that came later in its own time', () => {
    const queue = new TimerQueue()
    const [late, early] = [vi.fn(), vi.fn()]
    queue.add({ wake: late }, 1000)
    queue.add({ wake: early }, 10)
    vi.advanceTimersByTime(10)
    expect(early).toHaveBeenCalledTimes(1)
    expect(late).not.toHaveBeenCalled()
    vi.advanceTimersByTime(990)
    expect(late).toHaveBeenCalledTimes(1)
  })

  it.each([
    ['just over what Node takes', 2 ** 31],
    ['of a month', 30 * DAY],
    ['of ten years', 3650 * DAY],
  ])('a delay %s ends in its time, not at once', (_, delayMs) => {
    const queue = new TimerQueue()
    const woken = vi.fn()
    queue.add({ wake: woken }, delayMs)
    vi.advanceTimersByTime(delayMs - 1)
    expect(woken).not.toHaveBeenCalled()
    vi.advanceTimersByTime(1)
    expect(woken).toHaveBeenCalledTimes(1)
  })

  it('an endless delay does not end, and holds up no other', () => {
    const queue = new TimerQueue()
    const [never, other] = [vi.fn(), vi.fn()]
    queue.add({ wake: never }, Infinity)
    queue.add({ wake: other }, 10)
    vi.advanceTimersByTime(30 * DAY)
    expect(never).not.toHaveBeenCalled()
    expect(other).toHaveBeenCalledTimes(1)
  })

  it.each([[0], [-5], [Number.NaN]])('a delay of %s is over at once, and holds up no other', delayMs => {
    const queue = new TimerQueue()
    const [odd, before, after] = [vi.fn(), vi.fn(), vi.fn()]
    queue.add({ wake: before }, 10)
    queue.add({ wake: odd }, delayMs)
    queue.add({ wake: after }, 20)
    vi.advanceTimersByTime(1)
    expect(odd).toHaveBeenCalledTimes(1)
    vi.advanceTimersByTime(20)
    expect(before).toHaveBeenCalledTimes(1)
    expect(after).toHaveBeenCalledTimes(1)
  })

  it('a sleeper that throws holds up no other', () => {
    const queue = new TimerQueue()
    const [same, later] = [vi.fn(), vi.fn()]
    const wake = () => {
      throw new Error('a bug of the sleeper')
    }
    queue.add({ wake }, 10)
    queue.add({ wake: same }, 10)
    queue.add({ wake: later }, 20)
    expect(() => vi.advanceTimersByTime(10)).toThrow('a bug of the sleeper')
    vi.advanceTimersByTime(10)
    expect(same).toHaveBeenCalledTimes(1)
    expect(later).toHaveBeenCalledTimes(1)
  })

  it('takes no notice of a sleeper that is removed twice, or after it woke', () => {
    const queue = new TimerQueue()
    const woken = [vi.fn(), vi.fn(), vi.fn(), vi.fn()]
    const [first, second] = woken.map((wake, i) => queue.add({ wake }, 10 * (i + 1)))
    if (first === undefined || second === undefined) throw new Error('not added')
    queue.remove(second)
    queue.remove(second)
    vi.advanceTimersByTime(10)
    queue.remove(first)
    vi.advanceTimersByTime(100)
    expect(woken.map(wake => wake.mock.calls.length)).toEqual([1, 0, 1, 1])
  })

  it('does what a sorted list would do, whatever is added and removed, also from within', () => {
    type Step =
      | { do: 'add'; delayMs: number; onWake: { add?: number; remove?: number } }
      | { do: 'remove'; which: number }
      | { do: 'advance'; ms: number }
    // Few different delays, so that sleepers often share a moment; and some that Node's own timers do not take.
    const delay = fc.oneof({ weight: 9, arbitrary: fc.integer({ min: 1, max: 20 }) }, fc.constantFrom(2 ** 31, 2 ** 33))
    const onWake = fc.record({ add: delay, remove: fc.nat(50) }, { requiredKeys: [] })
    const step: fc.Arbitrary<Step> = fc.oneof(
      { weight: 4, arbitrary: fc.record({ do: fc.constant('add' as const), delayMs: delay, onWake }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('remove' as const), which: fc.nat(50) }) },
      { weight: 2, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.integer({ min: 1, max: 15 }) }) },
      { weight: 1, arbitrary: fc.constant({ do: 'advance' as const, ms: 2 ** 31 }) },
    )

    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), steps => {
        const queue = new TimerQueue()
        const entries: ReturnType<TimerQueue['add']>[] = []
        /** The model: when each sleeper is due, by number; what has woken or was removed is gone. */
        const due = new Map<number, number>()

        const add = (delayMs: number, onWake: { add?: number; remove?: number }) => {
          const number = entries.length
          due.set(number, performance.now() + delayMs)
          const wake = () => {
            expect(due.get(number), `sleeper ${number} wakes at its own time`).toBe(performance.now())
            expect(Math.min(...due.values()), 'nobody is overdue').toBe(performance.now())
            due.delete(number)
            if (onWake.add !== undefined) add(onWake.add, {})
            if (onWake.remove !== undefined) remove(onWake.remove)
          }
          entries.push(queue.add({ wake }, delayMs))
        }
        const remove = (which: number) => {
          const entry = entries[which]
          if (entry === undefined) return
          due.delete(which)
          queue.remove(entry)
        }

        for (const step of steps) {
          if (step.do === 'add') add(step.delayMs, step.onWake)
          else if (step.do === 'remove') remove(step.which)
          else vi.advanceTimersByTime(step.ms)
          for (const at of due.values()) expect(at, 'who is due has woken').toBeGreaterThan(performance.now())
        }
        vi.advanceTimersByTime(2 ** 34)
        expect(due.size).toBe(0)
      }),
      { numRuns: 300 },
    )
  })
})

describe('a timer queue, in real time', () => {
  it('wakes sleepers in the order of their times', async () => {
    const queue = new TimerQueue()
    const woken: number[] = []
    await new Promise<void>(resolve => {
      // Far enough apart for a machine that stalls between two of them.
      for (const delayMs of [240, 60, 160, 100]) queue.add({ wake: () => woken.push(delayMs) }, delayMs)
      queue.add({ wake: resolve }, 260)
    })
    expect(woken).toEqual([60, 100, 160, 240])
  })

  it('does not wake a sleeper before it is due by the clock that it measures with', async () => {
    const queue = new TimerQueue()
    for (let i = 0; i < 20; i++) {
      const dueAt = performance.now() + 1.5
      await new Promise<void>(wake => queue.add({ wake }, 1.5))
      expect(performance.now()).toBeGreaterThanOrEqual(dueAt)
    }
  })

  it('does not wake a sleeper at once whose delay Node would not take', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
    const queue = new TimerQueue()
    const woken = vi.fn()
    const entry = queue.add({ wake: woken }, 2 ** 31)
    await new Promise<void>(wake => queue.add({ wake }, 10))
    expect(woken).not.toHaveBeenCalled()
    expect(warned).not.toHaveBeenCalled()
    queue.remove(entry)
  })
})
