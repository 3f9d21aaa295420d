import { createHash } from 'node:crypto'
import { extendPolicy, OptionError, type Policy, policy } from '../policy/index.js'
import { type Env, readNumber } from './env.js'
import type { Preset } from './preset.js'

const retryOn = ['RetryableError'] as const

const DEFAULT = policy({
  attempts: 8,
  backoff: { kind: 'exponential', base: '250ms', factor: 2, max: '60s' },
  jitter: 'full',
  ttl: '30m',
  retryOn,
})

/** Events that may arrive before the documents they speak of: only a `RetryableError` or a subclass is retried. */
export const events = {
  name: 'events',
  policy: eventPolicy,
  retryOn,
  key: eventKey,
  metricNames: {
    successes: 'event_retry_success_total',
    latency: 'event_retry_latency_seconds',
    deadLetters: 'event_retry_dlq_total',
    attempts: 'event_retry_attempt_count',
  },
} as const satisfies Preset

/** Joined ids that are longer than this are hashed. */
const LONGEST_IDS = 100

/** The service and the ids, joined by `-`. Ids that contain `-` may share a key with others, as in the source system. */
function eventKey(service: string, ids: readonly string[]): string {
  const joined = ids.join('-')
  const isLong = joined.length > LONGEST_IDS
  return `${service}-${isLong ? createHash('sha256').update(joined).digest('hex').slice(0, 16) : joined}`
}

/**
 * Eight attempts within half an hour, changed by `RETRY_MAX_ATTEMPTS`, `RETRY_BASE_DELAY_MS`, `RETRY_BACKOFF_FACTOR`,
 * `RETRY_MAX_DELAY_SECONDS` and `RETRY_TTL_MINUTES`, or by the same names with `EVENT_` before them, which come first. With
 * `EVENT_RETRY_TYPE=noop` there is one attempt.
 */
function eventPolicy(env: Env): Policy {
  const type = env.EVENT_RETRY_TYPE ?? ''
  if (!['', 'default', 'noop'].includes(type)) {
    throw new OptionError(
      'EVENT_RETRY_TYPE',
      `EVENT_RETRY_TYPE must be 'default' or 'noop', got '${type.slice(0, 60)}'.`,
    )
  }
  const fromEnv = extendPolicy(DEFAULT, {
    attempts: readNumber(env, ['EVENT_RETRY_MAX_ATTEMPTS', 'RETRY_MAX_ATTEMPTS'], { min: 1, isWhole: true }),
    ttl: readNumber(env, ['EVENT_RETRY_TTL_MINUTES', 'RETRY_TTL_MINUTES'], { min: 0, unitMs: 60_000 }),
    backoff: {
      base: readNumber(env, ['EVENT_RETRY_BASE_DELAY_MS', 'RETRY_BASE_DELAY_MS'], { min: 0, unitMs: 1 }),
      factor: readNumber(env, ['EVENT_RETRY_BACKOFF_FACTOR', 'RETRY_BACKOFF_FACTOR'], { min: 1 }),
      max: readNumber(env, ['EVENT_RETRY_MAX_DELAY_SECONDS', 'RETRY_MAX_DELAY_SECONDS'], { min: 0, unitMs: 1000 }),
    },
  })
  return type === 'noop' ? extendPolicy(fromEnv, { attempts: 1 }) : fromEnv
}
