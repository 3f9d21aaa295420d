import { type PersistOptions, persist } from '../attempt/index.js'
import { type Policy, policy } from '../policy/index.js'

/** The policy of a write that a caller waits for: a few attempts within a second. */
export const AT_ONCE = /* @__PURE__ */ policy({
  attempts: 4,
  backoff: { base: '50ms', max: '1s' },
  jitter: 'equal',
  retryOn: 'all',
  maxRetryAfter: '1s',
})

/** The policy of a background write, long enough for an outage of the store. */
export const LATER = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  ttl: '15m',
  backoff: { base: '1s', max: '30s' },
  jitter: 'equal',
  retryOn: 'all',
  maxRetryAfter: '30s',
})

/** The result of a write: the store's answer, or the last failure. */
export type Written<T> = { readonly answer: T } | { readonly failure: unknown }

/** Writes to the store with retries under the policy, and once more when the signal aborts. Never rejects. */
export function write<T>(ask: () => Promise<T>, policy: Policy, options: PersistOptions): Promise<Written<T>> {
  return persist(ask, policy, options).then(
    answer => ({ answer }),
    failure => ({ failure }),
  )
}
