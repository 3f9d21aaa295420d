import { describe, expect, it } from 'vitest'
import { explain, OptionError, policies } from '../policy/index.js'
import { eventPolicy } from './event-policy.js'

describe('the policy of events, from the environment', () => {
  it('is the preset where nothing is set', () => {
    expect(eventPolicy({})).toEqual(policies.event)
    expect(eventPolicy({ RETRY_MAX_ATTEMPTS: '', RETRY_TTL_MINUTES: ' ', EVENT_RETRY_TYPE: 'default' })).toEqual(
      policies.event,
    )
  })

  it('waits up to 250 ms first, then 500, 1000 and so on: eight calls, seven waits', () => {
    const latest = explain(eventPolicy({})).attempts.map(({ latestMs }) => latestMs)
    const waits = latest.slice(1).map((at, index) => at - (latest[index] ?? 0))
    expect(waits).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000])
  })

  it('reads each variable in its unit', () => {
    const policy = eventPolicy({
      RETRY_MAX_ATTEMPTS: '5',
      RETRY_BASE_DELAY_MS: '100',
      RETRY_BACKOFF_FACTOR: '1.5',
      RETRY_MAX_DELAY_SECONDS: '2.5',
      RETRY_TTL_MINUTES: '0.5',
    })
    expect(policy).toMatchObject({ attempts: 5, ttl: 30_000, backoff: { base: 100, factor: 1.5, max: 2500 } })
    expect(policy).toMatchObject({ jitter: { kind: 'full' }, retryOn: ['RetryableError'] })
  })

  it('is one call and no wait with EVENT_RETRY_TYPE=noop, whatever else is set', () => {
    expect(eventPolicy({ EVENT_RETRY_TYPE: 'noop', RETRY_MAX_ATTEMPTS: '9' }).attempts).toBe(1)
  })

  it.each([
    ['RETRY_MAX_ATTEMPTS', '0'],
    ['RETRY_MAX_ATTEMPTS', '2.5'],
    ['RETRY_MAX_ATTEMPTS', 'many'],
    ['RETRY_BASE_DELAY_MS', '-1'],
    ['RETRY_BACKOFF_FACTOR', '0.5'],
    ['RETRY_MAX_DELAY_SECONDS', 'Infinity'],
    ['RETRY_TTL_MINUTES', 'NaN'],
    ['EVENT_RETRY_TYPE', 'off'],
  ])('refuses %s=%s by name', (name, value) => {
    expect(() => eventPolicy({ [name]: value })).toThrow(OptionError)
    expect(() => eventPolicy({ [name]: value })).toThrow(name)
  })
})
