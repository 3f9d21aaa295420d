import { describe, expect, it, vi } from 'vitest'
import { classify, OptionError, policies } from '../policy/index.js'
import { fakeClock } from '../testing/index.js'
import { Bulkhead, BulkheadFullError, bulkhead, CircuitBreaker, retry } from './index.js'

/** A function that runs until it is told to end. */
function held() {
  const ends: ((value: string) => void)[] = []
  const fn = vi.fn(() => new Promise<string>(resolve => ends.push(resolve)))
  return { fn, end: (value = 'done') => ends.shift()?.(value) }
}

const tick = () => new Promise(resolve => setImmediate(resolve))

describe('a bulkhead', () => {
  it('runs as many functions at once as it may, and refuses the next', async () => {
    const limit = new Bulkhead('db', { concurrency: 2 })
    const { fn, end } = held()
    const running = [limit.run(fn), limit.run(fn)]
    const refused = limit.run(fn)
    await expect(refused).rejects.toThrow(BulkheadFullError)
    await expect(refused).rejects.toThrow("Bulkhead 'db' is full: not called. 2 are running and 0 are waiting.")
    await expect(refused).rejects.toMatchObject({ code: 'bulkhead_full', bulkhead: 'db' })
    expect(fn).toHaveBeenCalledTimes(2)
    end()
    end()
    await expect(Promise.all(running)).resolves.toEqual(['done', 'done'])
    expect(limit.running).toBe(0)
  })

  it('calls those that wait in the order of their arrival', async () => {
    const limit = new Bulkhead('db', { concurrency: 1, queue: 2 })
    const { fn, end } = held()
    const order: number[] = []
    const all = [1, 2, 3].map(n =>
      limit.run(() => {
        order.push(n)
        return fn()
      }),
    )
    expect([limit.running, limit.waiting]).toEqual([1, 2])
    await expect(limit.run(fn)).rejects.toThrow(BulkheadFullError)
    for (let i = 0; i < 3; i++) {
      end()
      await tick()
    }
    await Promise.all(all)
    expect(order).toEqual([1, 2, 3])
    expect([limit.running, limit.waiting]).toEqual([0, 0])
  })

  it('has its place back after a function that throws or rejects', async () => {
    const limit = new Bulkhead('db', { concurrency: 1 })
    const broken = () => {
      throw new Error('broken')
    }
    await expect(limit.run(broken)).rejects.toThrow('broken')
    await expect(limit.run(() => Promise.reject(new Error('rejected')))).rejects.toThrow('rejected')
    await expect(limit.run(() => 'works')).resolves.toBe('works')
  })

  it('never runs more than it may, however many come while a place is handed over', async () => {
    const limit = new Bulkhead('db', { concurrency: 2, queue: 100 })
    let running = 0
    let most = 0
    const work = async () => {
      most = Math.max(most, ++running)
      await tick()
      running--
    }
    const first = Array.from({ length: 20 }, () => limit.run(work))
    const late = first.map(call => call.then(() => limit.run(work)))
    await Promise.all([...first, ...late])
    expect(most).toBe(2)
    expect([limit.running, limit.waiting]).toEqual([0, 0])
  })

  it('does not call a function whose signal has aborted, before it came or while it waited', async () => {
    const limit = new Bulkhead('db', { concurrency: 1, queue: 5 })
    const { fn, end } = held()
    const first = limit.run(fn)
    const controller = new AbortController()
    const waiting = limit.run(fn, { signal: controller.signal })
    const next = limit.run(() => 'next')
    controller.abort('enough')
    await expect(waiting).rejects.toBe('enough')
    await expect(limit.run(fn, { signal: controller.signal })).rejects.toBe('enough')
    expect(limit.waiting).toBe(1)
    end()
    await first
    await expect(next).resolves.toBe('next')
    expect(fn).toHaveBeenCalledTimes(1)
    expect([limit.running, limit.waiting]).toEqual([0, 0])
  })

  it('around each attempt: a call waits for a place no longer than its timeout, and is retried', async () => {
    const clock = fakeClock()
    const limit = new Bulkhead('db', { concurrency: 1, queue: 1 })
    const { fn, end } = held()
    const first = limit.run(fn)
    const call = retry(
      ({ signal }) => limit.run(() => 'result', { signal }),
      { timeout: '1s', attempts: 2, jitter: 'none' },
      { clock },
    )
    await clock.advance('1s')
    expect(limit.waiting).toBe(0)
    end()
    await first
    await clock.runAll()
    await expect(call).resolves.toBe('result')
  })

  it('that is full does not open the breaker of a service that works', async () => {
    const clock = fakeClock()
    const breaker = new CircuitBreaker('db', { consecutiveFailures: 1 })
    const limit = new Bulkhead('db', { concurrency: 1, queue: 0 })
    const { fn, end } = held()
    const first = limit.run(fn)
    const refused = retry(() => limit.run(fn), { attempts: 1 }, { clock, breaker })
    await expect(refused).rejects.toThrow('is full')
    expect(breaker.state).toBe('closed')
    end()
    await first
  })

  it('that is full looks like a rate limit, which is retried', async () => {
    const error = new BulkheadFullError('db', { concurrency: 1 })
    expect(classify(error, policies.call, 0)).toEqual({ class: 'rate_limited', code: 'bulkhead_full' })
  })

  it.each([
    ['concurrency', { concurrency: 0 }],
    ['concurrency', { concurrency: 1.5 }],
    ['queue', { concurrency: 1, queue: -1 }],
    ['queue', { concurrency: 1, queue: Number.NaN }],
    ['quue', { concurrency: 1, quue: 1 }],
  ])('refuses a wrong %s', (option, options) => {
    const make = () => new Bulkhead('x', options)
    expect(make).toThrow(OptionError)
    expect(make).toThrow(`'${option}'`)
  })

  it('is shared by name, with options where it is first named', () => {
    expect(() => bulkhead('unnamed')).toThrow("Give it a 'concurrency'")
    const first = bulkhead('shared', { concurrency: 3 })
    expect(bulkhead('shared')).toBe(first)
    expect(() => bulkhead('shared', { concurrency: 4 })).toThrow(OptionError)
  })
})
