import { describe, expect, test } from 'vitest'
import { circuitBreaker, retry } from '../call/index.js'
import { FinalError, type GiveUpReason, RateLimitedError } from '../policy/index.js'
import { fakeClock } from '../testing/index.js'
import { auditRecord } from './audit.js'
import { memoryAudit } from './memory-audit.js'
import type { GaveUp, IdempotencyUsed, Work } from './work-events.js'

const work: Work = { kind: 'call', id: 'w-1', name: 'Publish an order' }
const at = Date.UTC(2026, 0, 25, 21, 15)

async function audited(fn: () => unknown, policy = {}, options = {}) {
  const clock = fakeClock(at)
  const audit = memoryAudit()
  const call = retry(fn, { attempts: 3, jitter: 'none', ...policy }, { clock, sink: audit, ...options })
  const outcome = call.then(
    () => 'succeeded',
    () => 'failed',
  )
  await clock.runAll()
  await outcome
  return audit.records
}

function failing(times: number, failure: unknown = new Error('boom')) {
  let calls = 0
  return () => {
    if (++calls <= times) throw failure
  }
}

describe('the audit of a call', () => {
  for (const attempts of [1, 2, 3, 8]) {
    test(`${attempts} failures of ${attempts} attempts are ${attempts - 1} retry_attempt and one retry_exhausted`, async () => {
      const records = await audited(failing(attempts), { attempts })
      const expected = Array.from({ length: attempts }, (_, i) =>
        i + 1 < attempts ? 'retry_attempt' : 'retry_exhausted',
      )
      expect(records.map(record => record.event_type)).toEqual(expected)
    })
  }

  test('a success at once leaves nothing', async () => {
    expect(await audited(failing(0))).toEqual([])
  })

  test('a success after two failures leaves two retry_attempt and no end', async () => {
    const records = await audited(failing(2))
    expect(records.map(record => record.event_type)).toEqual(['retry_attempt', 'retry_attempt'])
  })

  test('a final error leaves no retry event', async () => {
    expect(await audited(failing(1, new FinalError('no such user')))).toEqual([])
  })

  test('an open breaker leaves no retry event', async () => {
    const breaker = circuitBreaker('audit test', { minimumCalls: 1, failureRate: 1 })
    const records = await audited(failing(9), { attempts: 3 }, { breaker })
    expect(records.map(record => record.event_type)).not.toContain('retry_exhausted')
  })

  test('a deferral is a retry_attempt too', async () => {
    const limited = new RateLimitedError('slow down', { retryAfterMs: 30_000 })
    const records = await audited(failing(1, limited), { deferrals: 5 })
    expect(records).toMatchObject([{ event_type: 'retry_attempt', attempt_number: 1, delay_seconds: 30 }])
  })

  test('a timeout leaves timeout_occurred before its retry', async () => {
    const never = () => new Promise<void>(() => undefined)
    const records = await audited(never, { attempts: 2, timeout: '1.5s' }, { category: 'KV_GET' })
    expect(records.map(record => record.event_type)).toEqual([
      'timeout_occurred',
      'retry_attempt',
      'timeout_occurred',
      'retry_exhausted',
    ])
    expect(records[0]).toMatchObject({
      retry_category: 'RETRY_KV_GET',
      timeout_code: 'TIMEOUT_KV_GET',
      timeout_seconds: 1.5,
    })
  })
})

describe('an audit record', () => {
  test('has the fields of a retry_attempt', async () => {
    const given = {
      name: 'Publish an order',
      category: 'NATS_PUBLISH',
      tenantId: 'tenant-123',
      correlationId: 'corr-456',
      traceId: 'trace-789',
      context: { order: 7, apiKey: 'k-1' },
    }
    const [record] = await audited(failing(1, new TypeError('fetch failed')), { retryOn: 'all' }, given)
    expect(record).toEqual({
      event_type: 'retry_attempt',
      retry_category: 'RETRY_NATS_PUBLISH',
      operation: 'Publish an order',
      attempt_number: 1,
      max_attempts: 3,
      delay_seconds: 1,
      exception_type: 'TypeError',
      exception_message: 'fetch failed',
      tenant_id: 'tenant-123',
      correlation_id: 'corr-456',
      trace_id: 'trace-789',
      additional_context: { order: 7, apiKey: '[redacted]' },
      timestamp: '2026-01-25T21:15:00.000Z',
    })
  })

  test('has the fields of a retry_exhausted, with null for what was not given', async () => {
    const records = await audited(failing(3), {}, { name: 'Get a key' })
    expect(records.at(-1)).toEqual({
      event_type: 'retry_exhausted',
      retry_category: 'RETRY_DEFAULT',
      operation: 'Get a key',
      total_attempts: 3,
      final_exception_type: 'Error',
      final_exception_message: 'boom',
      tenant_id: null,
      correlation_id: null,
      trace_id: null,
      additional_context: null,
      timestamp: '2026-01-25T21:15:03.000Z',
    })
  })

  test('of an idempotency key says hit or record', () => {
    const event: IdempotencyUsed = { type: 'idempotency_hit', work, at, key: 'abc123' }
    expect(auditRecord(event)).toMatchObject({ event_type: 'idempotency', idempotency_key: 'abc123', action: 'hit' })
    expect(auditRecord({ ...event, type: 'idempotency_recorded' })).toMatchObject({ action: 'record' })
  })

  test('of giving up is made only when retries were used up', () => {
    const reasons: Record<GiveUpReason | 'breaker_open', boolean> = {
      attempts_exhausted: true,
      losses_exhausted: true,
      ttl_expired: true,
      deadline_passed: true,
      budget_empty: true,
      final_error: false,
      aborted: false,
      breaker_open: false,
    }
    for (const [reason, isExhausted] of Object.entries(reasons) as [GaveUp['reason'], boolean][]) {
      const event: GaveUp = {
        type: 'gave_up',
        work,
        at,
        attempt: 2,
        maxAttempts: 3,
        durationMs: 1,
        failure: new Error('boom'),
        verdict: { class: 'retryable', code: 'unknown' },
        reason,
      }
      expect([reason, auditRecord(event)?.event_type]).toEqual([reason, isExhausted ? 'retry_exhausted' : undefined])
    }
  })

  test('redacts and bounds what a failure says', async () => {
    const secret = new Error(`connect postgres://app:hunter2@db/orders ${'x'.repeat(100_000)}`)
    const [record] = await audited(failing(1, secret))
    expect(JSON.stringify(record)).not.toContain('hunter2')
    expect(JSON.stringify(record).length).toBeLessThan(2000)
  })
})

describe('the memory audit', () => {
  test('keeps the latest records and counts those that made room', async () => {
    const audit = memoryAudit({ max: 2 })
    const clock = fakeClock()
    const call = retry(failing(4), { attempts: 4 }, { clock, sink: audit }).catch(() => undefined)
    await clock.runAll()
    await call
    expect(audit.records.map(record => record.event_type)).toEqual(['retry_attempt', 'retry_exhausted'])
    expect(audit.dropped).toBe(2)
    audit.clear()
    expect([audit.records.length, audit.dropped]).toEqual([0, 0])
  })
})

test('what names the work is bounded and on one line, and a name gives away no secrets', () => {
  const name = `load \u001b[2J?token=abc ${'x'.repeat(5000)}`
  const work = { kind: 'call', id: 'w-1', name, tenantId: `t\n${'y'.repeat(5000)}` } as const
  const record = auditRecord({ type: 'timed_out', work, at: 0, attempt: 1, maxAttempts: 3, timeoutMs: 5 })
  expect(record?.operation).not.toMatch(/abc|\u001b/)
  expect(record?.operation.length).toBeLessThan(1100)
  expect(record?.tenant_id).not.toContain('\n')
  expect(record?.tenant_id?.length).toBeLessThan(300)
})
