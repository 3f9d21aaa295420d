import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { managerOnFakeClock } from '../../test/manager-on-fake-clock.js'
import type { RetryManagerOptions } from '../call/index.js'
import { presets } from './index.js'

/** Attempts, base and max of the backoff in seconds, and the timeout of an attempt in seconds. */
const TABLE = `
  NATS_CONNECT           5   1    30   10
  NATS_PUBLISH           3   0.5  10   5
  NATS_SUBSCRIBE         3   0.5  10   5
  NATS_STREAM_CREATE     2   2    60   15
  KV_CREATE              2   1    30   10
  KV_GET                 3   0.5  10   5
  KV_PUT                 3   0.5  10   5
  KV_DELETE              2   1    30   5
  EXECUTION_INTENT       2   2    60   30
  EXECUTION_CONTAINMENT  2   2    60   60
  EXECUTION_EXPIRATION   1   1    30   120
  APPROVAL_CHECK         3   1    30   5
  APPROVAL_GRANT         2   2    60   10
  REPLAY_PROCESSING      1   1    30   300
  REPLAY_VALIDATION      2   1    30   60
  API_REQUEST            3   1    30   30
  API_VALIDATION         2   0.5  10   10`
  .trim()
  .split('\n')
  .map(line => line.trim().split(/\s+/))
  .map(([category = '', ...numbers]) => {
    const [attempts = 0, base = 0, max = 0, timeout = 0] = numbers.map(Number)
    return { category, attempts, base, max, timeout }
  })

const down = () => Promise.reject(new Error('down'))
const never = () => new Promise<never>(() => {})

let warned = vi.spyOn(process, 'emitWarning')
beforeEach(() => {
  warned = vi.spyOn(process, 'emitWarning').mockReturnValue()
})
afterEach(() => {
  vi.restoreAllMocks()
})

const { categories } = presets.calls
const setUp = (options: RetryManagerOptions = {}) => managerOnFakeClock({ categories, ...options })

describe('the categories of the preset for calls', () => {
  it('are these seventeen', () => {
    expect(Object.keys(presets.calls.categories).sort()).toEqual(TABLE.map(({ category }) => category).sort())
    expect(TABLE).toHaveLength(17)
  })

  it.each(TABLE)('$category: $attempts attempts', async ({ category, attempts }) => {
    const { manager, settled } = setUp()
    const fn = vi.fn(down)
    await settled(manager.execute(category, 'operation', fn))
    expect(fn).toHaveBeenCalledTimes(attempts)
    expect(warned).not.toHaveBeenCalled()
  })

  it.each(TABLE)('$category: from $base s to $max s, doubling', async ({ category, base, max }) => {
    const { manager, settled, delays } = setUp()
    await settled(manager.execute(category, 'operation', down, { policy: { attempts: 12 } }))
    expect(delays()).toEqual(Array.from({ length: 11 }, (_, n) => Math.min(base * 2 ** n, max) * 1000))
  })

  it.each(TABLE)('$category: jitter of 10 % either way', async ({ category, base }) => {
    const extremes = await Promise.all(
      [0, 1 - Number.EPSILON].map(async random => {
        const { manager, settled, delays } = setUp({ random: () => random })
        await settled(manager.execute(category, 'operation', down, { policy: { attempts: 2 } }))
        return delays()
      }),
    )
    expect(extremes).toEqual([[base * 900], [base * 1100]])
  })

  it.each(TABLE)('$category: $timeout s for an attempt', async ({ category, attempts, timeout }) => {
    const { manager, settled, audit } = setUp()
    const result = await settled(manager.execute(category, 'operation', never))
    expect(result).toMatchObject({
      status: 'rejected',
      reason: { cause: { name: 'TimeoutError', code: `TIMEOUT_${category}`, timeoutMs: timeout * 1000 } },
    })
    const timeouts = audit.records.filter(({ event_type }) => event_type === 'timeout_occurred')
    expect(timeouts).toHaveLength(attempts)
    expect(timeouts[0]).toMatchObject({ timeout_code: `TIMEOUT_${category}`, timeout_seconds: timeout })
  })

  it.each(TABLE)('$category: its code in the audit is RETRY_$category', async ({ category }) => {
    const { manager, settled, audit } = setUp()
    await settled(manager.execute(category, 'operation', down))
    for (const { retry_category } of audit.records) expect(retry_category).toBe(`RETRY_${category}`)
    expect(audit.records.length).toBeGreaterThan(0)
  })

  it('retry every failure that is not said to be final', async () => {
    const { manager, settled } = setUp()
    for (const failure of [{ status: 404 }, new TypeError('a bug'), 'text', null]) {
      const fn = vi.fn(() => Promise.reject(failure))
      await settled(manager.execute('API_REQUEST', 'operation', fn))
      expect(fn).toHaveBeenCalledTimes(3)
    }
  })
})
