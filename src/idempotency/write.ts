import { type PersistOptions, persist } from '../attempt/index.js'
import { type Policy, policy } from '../policy/index.js'

/** For a write that a caller waits for: a few attempts within a second. */
export const AT_ONCE = /* @__PURE__ */ policy({
  attempts: 4,
  backoff: { base: '50ms', max: '1s' },
  jitter: 'equal',
  retryOn: 'all',
  maxRetryAfter: '1s',
})

/** For a write that nobody waits for: as long as an outage of the store may well last. */
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

/** Writes to the store, again and again as the policy says; when the signal aborts, one last time. Never rejects. */
export function write<T>(ask: () => Promise<T>, policy: Policy, options: PersistOptions): Promise<Written<T>> {
  return persist(ask, policy, options).then(
    answer => ({ answer }),
    failure => ({ failure }),
  )
}
