import { expect, it } from 'vitest'
import { classify, policy, RateLimitedError, TimeoutError } from '../policy/index.js'
import { errorType } from './error-type.js'

it.each([
  [{ status: 429 }, 'rate_limit'],
  [new RateLimitedError('slow down'), 'rate_limit'],
  [{ status: 503, headers: { 'retry-after': '1' } }, 'rate_limit'],
  [{ status: 500 }, 'server_error'],
  [{ status: 504 }, 'server_error'],
  [new TimeoutError('too slow', { timeoutMs: 30_000 }), 'timeout'],
  [{ status: 408 }, 'timeout'],
  [{ code: 'ETIMEDOUT' }, 'timeout'],
  [{ code: 'UND_ERR_HEADERS_TIMEOUT' }, 'timeout'],
  [{ code: 'ECONNRESET' }, 'network_error'],
  [{ code: 'ENOTFOUND' }, 'network_error'],
  [{ status: 422 }, 'unknown'],
  [new Error('bad'), 'unknown'],
  [null, 'unknown'],
])('%j has the type %s', (failure, type) => {
  expect(errorType(classify(failure, policy(), 0))).toBe(type)
})
