import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { classify, explain, OptionError, policy, RetryableError } from '../policy/index.js'
import { presets } from './index.js'

const eventPolicy = presets.events.policy

describe('the keys of the preset for events', () => {
  it('are the service and all ids, joined; ids of more than 100 characters are hashed, and no others', () => {
    const key = presets.events.key
    expect(key('chunking', ['a', 'b-c'])).toBe('chunking-a-b-c')
    expect(key('s', ['x'.repeat(100)])).toBe(`s-${'x'.repeat(100)}`)
    const long = ['x'.repeat(50), 'y-'.repeat(25)]
    const hash = createHash('sha256').update(long.join('-')).digest('hex')
    expect(key('s', long)).toBe(`s-${hash.slice(0, 16)}`)
  })
})

describe('the policy of the preset for events', () => {
  it('is eight attempts within half an hour where nothing is set', () => {
    const expected = policy({
      attempts: 8,
      backoff: { base: '250ms', factor: 2, max: '60s' },
      jitter: 'full',
      ttl: '30m',
      retryOn: ['RetryableError'],
    })
    expect(eventPolicy({})).toEqual(expected)
    expect(eventPolicy({ RETRY_MAX_ATTEMPTS: '', RETRY_TTL_MINUTES: ' ', EVENT_RETRY_TYPE: 'default' })).toEqual(
      expected,
    )
  })

  it('retries a RetryableError and its subclasses, and nothing else', () => {
    class NotThereYet extends RetryableError {}
    const classOf = (failure: unknown) => classify(failure, eventPolicy({}), 0).class
    expect([new RetryableError('x'), new NotThereYet('x')].map(classOf)).toEqual(['retryable', 'retryable'])
    const others = [new Error('x'), new TypeError('x'), { status: 503 }, { code: 'ECONNRESET' }]
    expect(others.map(classOf)).toEqual(['final', 'final', 'final', 'final'])
    expect(presets.events.retryOn).toEqual(eventPolicy({}).retryOn)
  })

  it('waits up to 250 ms first, then 500, 1000 and so on: eight calls, seven waits', () => {
    const latest = explain(eventPolicy({})).attempts.map(({ latestMs }) => latestMs)
    const waits = latest.slice(1).map((at, index) => at - (latest[index] ?? 0))
    expect(waits).toEqual([250, 500, 1000, 2000, 4000, 8000, 16_000])
  })

  it('reads each variable by its name with EVENT_ before it too, and that one first', () => {
    expect(eventPolicy({ EVENT_RETRY_MAX_ATTEMPTS: '3', RETRY_MAX_ATTEMPTS: '5' }).attempts).toBe(3)
    expect(eventPolicy({ EVENT_RETRY_MAX_ATTEMPTS: ' ', RETRY_MAX_ATTEMPTS: '5' }).attempts).toBe(5)
    const policy = eventPolicy({
      EVENT_RETRY_BASE_DELAY_MS: '100',
      EVENT_RETRY_BACKOFF_FACTOR: '3',
      EVENT_RETRY_MAX_DELAY_SECONDS: '10',
      EVENT_RETRY_TTL_MINUTES: '5',
    })
    expect(policy).toMatchObject({ backoff: { base: 100, factor: 3, max: 10_000 }, ttl: 300_000 })
    expect(() => eventPolicy({ EVENT_RETRY_TTL_MINUTES: 'soon' })).toThrow(/^EVENT_RETRY_TTL_MINUTES must be a number/)
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
