import { BreakerOpenError, CircuitBreaker, retry as redrive } from 'redrive'
import type { WorkEvent } from 'redrive/telemetry'
import { fakeClock } from 'redrive/testing'
import { describe, expect, it, vi } from 'vitest'
import { breakerPolicy, type Filter, handleAll, handleType, handleWhenResult, retryPolicy } from './adapter.js'

class MyErrorA extends Error {}
class MyErrorB extends Error {}
class MyErrorC extends Error {}

const throwing = (...errors: Error[]) =>
  vi.fn(() => {
    throw errors.length > 1 ? errors.shift() : errors[0]
  })
const retry = (filter: Filter, options: Parameters<typeof retryPolicy>[1] = {}) =>
  retryPolicy(filter, options, fakeClock())

describe('RetryPolicy', () => {
  it('types return data correctly in all cases', async () => {
    const policy = retry(handleAll, { maxAttempts: 1 })
    const multiply = (n: number) => n * 2
    expect(multiply(await policy.execute(() => 42))).toBe(84)
    expect(multiply(await policy.execute(async () => 42))).toBe(84)
  })

  it('sets the retry delay', async () => {
    const policy = retry(handleAll, { maxAttempts: 1, backoff: { kind: 'fixed', base: 50 } })
    const fn = throwing(new MyErrorA())
    await expect(policy.execute(fn)).rejects.toThrow(MyErrorA)
    expect(policy.retries.map(({ delay }) => delay)).toEqual([50])
    expect(fn).toHaveBeenCalledTimes(2)
  })

  it('sets the retry sequence', async () => {
    const policy = retry(handleAll, { maxAttempts: 3, backoff: [10, 20, 20] })
    const fn = throwing(new MyErrorA())
    await expect(policy.execute(fn)).rejects.toThrow(MyErrorA)
    expect(policy.retries.map(({ delay }) => delay)).toEqual([10, 20, 20])
    expect(fn).toHaveBeenCalledTimes(4)
  })

  it('retries all errors', async () => {
    const fn = vi.fn().mockRejectedValueOnce(new MyErrorA()).mockReturnValueOnce('ok')
    expect(await retry(handleAll).execute(fn)).toBe('ok')
    expect(fn).toHaveBeenCalledTimes(2)
  })

  it('filters error types', async () => {
    const fn = throwing(new MyErrorA(), new MyErrorB())
    await expect(retry(handleType(MyErrorA), { maxAttempts: 5 }).execute(fn)).rejects.toThrow(MyErrorB)
    expect(fn).toHaveBeenCalledTimes(2)
  })

  it('filters returns', async () => {
    const fn = vi.fn().mockReturnValueOnce(1).mockReturnValueOnce(2)
    const policy = retry(
      handleWhenResult(r => typeof r === 'number' && r < 2),
      { maxAttempts: 5 },
    )
    expect(await policy.execute(fn)).toBe(2)
    expect(fn).toHaveBeenCalledTimes(2)
  })

  it('permits specifying exponential backoffs', async () => {
    const fn = vi.fn(() => 1)
    const policy = retry(
      handleWhenResult(r => typeof r === 'number'),
      { backoff: { base: 128 }, maxAttempts: 2 },
    )
    expect(await policy.execute(fn)).toBe(1)
    expect(fn).toHaveBeenCalledTimes(3)
  })

  it('bubbles returns when retry attempts exceeded', async () => {
    const fn = vi.fn(() => 1)
    const policy = retry(
      handleWhenResult(r => typeof r === 'number' && r < 2),
      { maxAttempts: 5 },
    )
    expect(await policy.execute(fn)).toBe(1)
    expect(fn).toHaveBeenCalledTimes(6)
  })

  it('bubbles errors when retry attempts exceeded', async () => {
    const fn = throwing(new MyErrorB())
    await expect(retry(handleAll, { maxAttempts: 5 }).execute(fn)).rejects.toThrow(MyErrorB)
    expect(fn).toHaveBeenCalledTimes(6)
  })

  it('stops retries if cancellation is requested', async () => {
    const parent = new AbortController()
    let calls = 0
    const call = retry(handleAll, { maxAttempts: 3 }).execute(({ signal }) => {
      calls++
      expect(signal.aborted).toBe(false)
      parent.abort()
      expect(signal.aborted).toBe(true)
      throw new Error('after the abort')
    }, parent.signal)
    // Redrive ends with the reason of the abort, cockatiel with the error.
    await expect(call).rejects.toBe(parent.signal.reason)
    expect(calls).toBe(1)
  })

  it('fires onGiveUp', async () => {
    const error = new MyErrorA()
    const policy = retry(handleType(MyErrorA), { maxAttempts: 5 })
    await expect(policy.execute(throwing(error))).rejects.toBe(error)
    expect(policy.givenUp).toEqual([error])
  })

  it('provides the attempt to the onRetry callback', async () => {
    const policy = retry(handleAll, { maxAttempts: 3 })
    await expect(policy.execute(throwing(new MyErrorA()))).rejects.toThrow(MyErrorA)
    expect(policy.retries.map(({ attempt }) => attempt)).toEqual([1, 2, 3])
  })
})

describe('Policy', () => {
  it('wraps', async () => {
    const breaker = new CircuitBreaker('wrapped', { consecutiveFailures: 2, openFor: 100 })
    const clock = fakeClock()
    const broken = breakerPolicy(handleAll, breaker, clock)
    const policy = retryPolicy(handleType(MyErrorA), { maxAttempts: 3 }, clock)
    await expect(policy.execute(() => broken.execute(throwing(new MyErrorA())))).rejects.toThrow(BreakerOpenError)
  })

  it('applies error filters', async () => {
    const fn = throwing(new MyErrorA(), new MyErrorB(), new MyErrorC('foo'), new Error('potato'), new MyErrorC('bar'))
    const error = (e: unknown) =>
      e instanceof MyErrorA ||
      e instanceof MyErrorB ||
      (e instanceof MyErrorC && e.message === 'foo') ||
      (e instanceof Error && e.message === 'potato')
    await expect(retry({ ...handleAll, error }, { maxAttempts: 10 }).execute(fn)).rejects.toThrow('bar')
    expect(fn).toHaveBeenCalledTimes(5)
  })

  it('applies result filters', async () => {
    const results = [new MyErrorA(), new MyErrorB(), new MyErrorC('foo'), 'potato', 'ok!']
    const fn = vi.fn(() => results.shift())
    const policy = retry(
      handleWhenResult(r => r instanceof Error || r === 'potato'),
      { maxAttempts: 10 },
    )
    expect(await policy.execute(fn)).toBe('ok!')
    expect(fn).toHaveBeenCalledTimes(5)
  })
})

describe('executor', () => {
  const told = async (fn: () => unknown) => {
    const events: WorkEvent[] = []
    const call = redrive(fn, { attempts: 1 }, { sink: event => events.push(event) })
    const result: unknown = await call.catch(error => error)
    return { result, ended: events.at(-1) }
  }

  it('handles successful calls', async () => {
    expect(await told(() => 15)).toMatchObject({
      result: 15,
      ended: { type: 'attempt_succeeded', durationMs: expect.any(Number) },
    })
  })

  it('deals with handled errors', async () => {
    const failure = new MyErrorA()
    expect(await told(throwing(failure))).toMatchObject({
      result: { cause: failure },
      ended: { type: 'gave_up', failure, durationMs: expect.any(Number), verdict: { class: 'retryable' } },
    })
  })

  it('deals with unhandled errors', async () => {
    const failure = new TypeError('a bug')
    expect(await told(throwing(failure))).toMatchObject({
      result: failure,
      ended: { type: 'gave_up', failure, durationMs: expect.any(Number), verdict: { class: 'final' } },
    })
  })
})
