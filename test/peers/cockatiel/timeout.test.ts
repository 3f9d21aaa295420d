import { type PolicyInput, retry, TimeoutError } from 'redrive'
import { advance, begin, decide, explain, policy } from 'redrive/policy'
import { fakeClock } from 'redrive/testing'
import { describe, expect, it } from 'vitest'
import { timeoutPolicy } from './adapter.js'

const never = () => new Promise<never>(() => {})

describe('TimeoutPolicy', () => {
  it('works when no timeout happens', async () => {
    expect(await timeoutPolicy(1000, fakeClock()).execute(() => 42)).toBe(42)
  })

  it('properly aggressively cancels', async () => {
    const clock = fakeClock()
    let seen: AbortSignal | undefined
    const call = timeoutPolicy(5, clock).execute(({ signal }) => {
      seen = signal
      return never()
    })
    const rejected = expect(call).rejects.toThrow(TimeoutError)
    await clock.advance(4)
    expect(seen?.aborted).toBe(false)
    await clock.advance(1)
    expect(seen?.aborted).toBe(true)
    await rejected
  })

  it('links parent cancellation token', async () => {
    const parent = new AbortController()
    const call = timeoutPolicy(1000, fakeClock()).execute(({ signal }) => {
      expect(signal.aborted).toBe(false)
      parent.abort('cancelled')
      expect(signal.aborted).toBe(true)
    }, parent.signal)
    await expect(call).rejects.toBe('cancelled')
  })

  it('still has own timeout if given parent', async () => {
    const clock = fakeClock()
    const call = timeoutPolicy(1, clock).execute(never, new AbortController().signal)
    const rejected = expect(call).rejects.toThrow(TimeoutError)
    await clock.advance(1)
    await rejected
  })

  it('emits a success event (aggressive)', async () => {
    const clock = fakeClock()
    const policy = timeoutPolicy(2, clock)
    await policy.execute(() => 42)
    await clock.advance(3)
    expect(policy.events).toEqual(['success'])
  })

  it('emits a timeout event (aggressive)', async () => {
    const clock = fakeClock()
    const policy = timeoutPolicy(2, clock)
    const rejected = expect(policy.execute(never)).rejects.toThrow(TimeoutError)
    await clock.advance(3)
    await rejected
    expect(policy.events).toEqual(['timeout', 'failure'])
  })

  it('emits a failure event (aggressive)', async () => {
    const clock = fakeClock()
    const policy = timeoutPolicy(2, clock)
    const call = policy.execute(() => {
      throw new Error('oh no!')
    })
    await expect(call).rejects.toThrow('oh no!')
    await clock.advance(3)
    expect(policy.events).toEqual(['failure'])
  })

  it('does not leak abort listeners (#81)', async () => {
    const clock = fakeClock()
    const { signal } = new AbortController()
    let listeners = 0
    const counting = new Proxy(signal, {
      get(target, key) {
        if (key === 'addEventListener') listeners++
        if (key === 'removeEventListener') listeners--
        const value: unknown = Reflect.get(target, key, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    let failures = 15
    const call = retry(
      () => {
        if (failures-- > 0) throw new Error('fail')
      },
      { attempts: 20, backoff: { base: 1, max: 1 }, timeout: 1 },
      { signal: counting, clock },
    )
    await Promise.all([call, clock.runAll()])
    expect(listeners).toBe(0)
  })
})

describe('backoffs', () => {
  /** The delays between attempts. */
  const delays = (backoff: PolicyInput['backoff'], count: number) => {
    const starts = explain({ attempts: count + 1, backoff, jitter: 'none' }).attempts.map(({ latestMs }) => latestMs)
    return starts.slice(1).map((start, index) => start - (starts[index] ?? 0))
  }

  it('ConstantBackoff returns its duration', () => {
    expect(delays({ kind: 'fixed', base: 42 }, 3)).toEqual([42, 42, 42])
  })

  it('IterableBackoff works', () => {
    expect(delays([3, 6, 9], 4)).toEqual([3, 6, 9, 9])
  })

  it('ExponentialBackoff works', () => {
    expect(delays({ base: 128, factor: 2, max: 30_000 }, 11)).toEqual([
      128, 256, 512, 1024, 2048, 4096, 8192, 16384, 30000, 30000, 30000,
    ])
  })

  /** The delays after failures in a row, with random jitter. */
  const spread = (input: PolicyInput, count: number) => {
    const parsed = policy({ ...input, attempts: count + 1 })
    const verdict = { class: 'retryable', code: 'unknown' } as const
    const delays: number[] = []
    for (let history = begin(0); delays.length < count; ) {
      const decision = decide(parsed, history, verdict, { now: 0, random: Math.random() })
      if (decision.action === 'give_up') throw new Error('It gave up too early.')
      delays.push(decision.delayMs)
      history = advance(history, verdict, decision)
    }
    return delays
  }

  const backoff = { base: 128, factor: 2, max: 30_000 }
  it.each<[string, PolicyInput]>([
    ['noJitterGenerator', { backoff, jitter: 'none' }],
    ['fullJitterGenerator', { backoff, jitter: 'full' }],
    ['halfJitterGenerator', { backoff, jitter: 'equal' }],
    ['decorrelatedJitterGenerator', { backoff: { kind: 'decorrelated', base: 128, max: 30_000 } }],
  ])('%s is sane', (_, input) => {
    for (let i = 0; i < 10; i++) {
      for (const [k, delay] of spread(input, 100).entries()) {
        expect(delay).toBeGreaterThanOrEqual(0)
        // Decorrelated, a delay is up to three times the last.
        expect(delay).toBeLessThanOrEqual(Math.min(30_000, 128 * 3 ** (k + 1)))
      }
    }
  })

  it('fixes issue #86', () => {
    for (const delay of spread({ backoff: { kind: 'decorrelated', base: '45s', max: '15m' } }, 3000))
      expect(delay).toBeGreaterThanOrEqual(45_000)
  })
})
