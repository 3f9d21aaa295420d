import { setTimeout as delay } from 'node:timers/promises'
import { BulkheadFullError } from 'redrive'
import { beforeEach, describe, expect, it } from 'vitest'
import { bulkheadPolicy as bulkhead } from './adapter.js'

/** A promise that the test resolves. */
function defer<T>() {
  let resolve: (value: T) => void = () => {}
  const promise = new Promise<T>(done => {
    resolve = done
  })
  return { promise, resolve }
}

describe('Bulkhead', () => {
  let order: string[] = []
  beforeEach(() => {
    order = []
  })

  /** Functions that end in the order of their start. */
  const makeFns = (count: number) => {
    const ends = Array.from({ length: count }, () => defer<number>())
    const fns = ends.map(({ promise }, index) => async () => {
      order.push(`${index}: enter`)
      await promise
      order.push(`${index}: exit`)
      return index
    })
    const endAll = async () => {
      for (const [index, end] of ends.entries()) {
        end.resolve(index)
        await delay(1)
      }
    }
    return { fns, endAll }
  }

  it('rejects calls after limit is hit', async () => {
    const b = bulkhead(2)
    const { fns, endAll } = makeFns(3)
    const output = Promise.allSettled(fns.map(fn => b.execute(fn)))
    await endAll()
    expect(await output).toMatchObject([{ value: 0 }, { value: 1 }, { reason: expect.any(BulkheadFullError) }])
    expect(order).toEqual(['0: enter', '1: enter', '0: exit', '1: exit'])
  })

  it('queues requests, and rejects after queue limit', async () => {
    const b = bulkhead(2, 2)
    const { fns, endAll } = makeFns(5)
    const output = Promise.allSettled(fns.map(fn => b.execute(fn)))
    await endAll()
    expect(await output).toMatchObject([
      { value: 0 },
      { value: 1 },
      { value: 2 },
      { value: 3 },
      { reason: expect.any(BulkheadFullError) },
    ])
    expect(order).toEqual(['0: enter', '1: enter', '0: exit', '2: enter', '1: exit', '3: enter', '2: exit', '3: exit'])
  })

  it('maintains proper state', async () => {
    const b = bulkhead(2, 2)
    const slots = () => [b.queueSlots, b.executionSlots]
    const defers = Array.from({ length: 4 }, () => defer<void>())
    expect(slots()).toEqual([2, 2])
    const outs: Promise<void>[] = []
    const started = defers.map(({ promise }) => {
      outs.push(b.execute(() => promise))
      return slots()
    })
    expect(started).toEqual([
      [2, 1],
      [2, 0],
      [1, 0],
      [0, 0],
    ])
    const ended: number[][] = []
    for (const [index, { resolve }] of defers.entries()) {
      resolve()
      await outs[index]
      ended.push(slots())
    }
    expect(ended).toEqual([
      [1, 0],
      [2, 0],
      [2, 1],
      [2, 2],
    ])
  })

  it('links parent cancellation token', async () => {
    const b = bulkhead(1, Infinity)
    const todo: Promise<unknown>[] = []
    for (let i = 0; i < 3; i++) {
      const parent = new AbortController()
      const fn = async ({ signal }: { signal: AbortSignal }) => {
        await delay(1)
        expect(signal.aborted).toBe(false)
        parent.abort()
        expect(signal.aborted).toBe(true)
      }
      todo.push(b.execute(fn, parent.signal))
    }
    const uncalled = () => {
      throw new Error('expected not to call')
    }
    // Aborted from the start, and by the time it would run.
    todo.push(expect(b.execute(uncalled, AbortSignal.abort('cancelled'))).rejects.toBe('cancelled'))
    const later = new AbortController()
    todo.push(expect(b.execute(uncalled, later.signal)).rejects.toBe('cancelled'))
    later.abort('cancelled')
    await Promise.all(todo)
  })

  it('should process next queued item when previous item was aborted', async () => {
    const b = bulkhead(1, 10)
    const first = defer<number>()
    const controller = new AbortController()
    const promise1 = b.execute(() => first.promise)
    const promise2 = b.execute(() => 2, controller.signal)
    const promise3 = b.execute(() => 3)
    controller.abort('cancelled')
    first.resolve(1)
    await promise1
    await expect(promise2).rejects.toBe('cancelled')
    expect(await promise3).toBe(3)
    expect([b.executionSlots, b.queueSlots]).toEqual([1, 10])
  })
})
