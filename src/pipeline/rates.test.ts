import { beforeEach, describe, expect, it } from 'vitest'
import { OptionError, RateLimitedError } from '../policy/index.js'
import { MemoryStore } from '../store/internal.js'

import { type FakeClock, fakeClock } from '../testing/index.js'
import { sleep } from '../time/index.js'
import { batch, pipeline, type RunHandle, stage } from './index.js'

let clock: FakeClock
let store: MemoryStore
let calls: number

beforeEach(() => {
  clock = fakeClock()
  store = new MemoryStore({ clock })
  calls = 0
})

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

async function stop(...runs: readonly RunHandle[]): Promise<void> {
  const stopped = Promise.all(runs.map(run => run.stop()))
  await clock.advance('1m')
  await stopped
}

describe('the rates of a stage', () => {
  it('hold for all runs of the pipeline together', async () => {
    const call = stage('call', (_: number) => ++calls, { rates: { requests: { perMinute: 600, burst: 1 } } })
    const line = pipeline('line', call)
    const one = await line.start(numbers(1000), { store, clock })
    const other = await line.start(numbers(1000), { store, clock })
    await clock.advance('20s')
    expect(calls).toBeGreaterThanOrEqual(190)
    expect(calls).toBeLessThanOrEqual(202)
    await stop(one, other)
  })

  it('count what an item costs, as computed on its arrival, and what it really used', async () => {
    const line = pipeline(
      'line',
      stage('measure', (n: number) => ({ n, tokens: 100 }), { concurrency: 100 }),
      stage(
        'call',
        ({ n }, { used }) => {
          calls++
          used({ tokens: 50 })
          return n
        },
        { rates: { tokens: { perSecond: 100, burst: 100 } }, cost: ({ tokens }) => ({ tokens }) },
      ),
    )
    const run = await line.start(numbers(1000), { store, clock })
    await clock.advance('20s')
    // A hundred tokens a second, of which each call turns out to use fifty.
    expect(calls).toBeGreaterThanOrEqual(36)
    expect(calls).toBeLessThanOrEqual(44)
    await stop(run)
  })

  it('of a batch stage count calls, not items', async () => {
    const call = batch('call', (inputs: readonly number[]) => inputs, {
      size: 10,
      within: '50ms',
      rates: { requests: { perSecond: 2, burst: 1 } },
    })
    const run = await pipeline('line', call).start(numbers(1000), { store, clock })
    await clock.advance('20s')
    const { counts } = (await store.runs.get(run.id)) ?? {}
    expect(counts?.succeeded).toBeGreaterThanOrEqual(370)
    expect(counts?.succeeded).toBeLessThanOrEqual(420)
    await stop(run)
  })

  it('are refused if they cannot be understood', () => {
    const make = (rates: object) => () => stage('call', (n: number) => n, JSON.parse(JSON.stringify({ rates })))
    expect(make({ requests: {} })).toThrow(OptionError)
    expect(make({ requests: { perMinute: 0 } })).toThrow(/'requests' of the stage 'call' needs one of 'perSecond'/)
    expect(make({ requests: { perMinute: 1, perSecond: 1 } })).toThrow(OptionError)
  })
})

describe('an API that is throttled', () => {
  it('holds the stage for all runs, and the stage learns its pace', async () => {
    let [tokens, filledAt, refused] = [100, 0, 0]
    /** Allows a hundred calls a second, and a hundred at once. */
    const api = () => {
      tokens = Math.min(100, tokens + (clock.monotonic() - filledAt) / 10)
      filledAt = clock.monotonic()
      if (tokens >= 1) tokens--
      else throw new RateLimitedError('slow down', { retryAfterMs: 1000 })
    }
    const call = stage(
      'call',
      async (n: number) => {
        await sleep(100, clock)
        try {
          api()
          calls++
        } catch (error) {
          refused++
          throw error
        }
        return n
      },
      { concurrency: 25 },
    )
    const line = pipeline('line', call)
    const runs = [await line.start(numbers(4000), { store, clock }), await line.start(numbers(4000), { store, clock })]
    await clock.advance('40s')
    expect(refused / (calls + refused)).toBeLessThan(0.05)
    expect(calls / 40).toBeGreaterThan(85)
    await stop(...runs)
  })
})
