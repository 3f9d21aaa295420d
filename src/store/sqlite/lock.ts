import { persist } from '../../attempt/index.js'
import { policy } from '../../policy/index.js'
import { StoreBusyError } from '../contract/errors.js'
import { isBusy } from './driver.js'

/** Locks are held for milliseconds, so a waiter tries again soon, with jitter. */
const PATIENCE = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '2ms', factor: 1.5, max: '20ms' },
  jitter: 'full',
  ttl: '30s',
})

/**
 * Runs something that needs a lock, again and again while somebody else holds it, without blocking the event loop. Locks
 * are held in real time, whatever clock the store was given.
 */
export async function waitingForLock<T>(path: string, action: () => T): Promise<T> {
  try {
    return await persist(action, PATIENCE, { classify: error => (isBusy(error) ? 'retryable' : 'final') })
  } catch (error) {
    throw isBusy(error) ? new StoreBusyError(`'${path}'`, { cause: error }) : error
  }
}
