import { advance, begin, decide, policy } from '../../policy/index.js'
import { sleep, systemClock } from '../../time/index.js'
import { StoreBusyError } from '../errors.js'
import { isBusy } from './driver.js'

/** A lock is held for milliseconds: who waits looks again soon, but not all at once. */
const PATIENCE = /* @__PURE__ */ policy({
  attempts: Number.MAX_SAFE_INTEGER,
  backoff: { base: '2ms', factor: 1.5, max: '20ms' },
  jitter: 'full',
  ttl: '30s',
})
const LOCKED = { class: 'retryable', code: 'SQLITE_BUSY' } as const

/**
 * Does what needs a lock, again and again while somebody else has it, and lets the event loop turn meanwhile. Locks are
 * held in real time, whatever clock the store was given.
 */
export async function waitingForLock<T>(path: string, action: () => T): Promise<T> {
  let history = begin(systemClock.monotonic())
  for (;;) {
    try {
      return action()
    } catch (error) {
      if (!isBusy(error)) throw error
      const circumstances = { now: systemClock.monotonic(), random: Math.random() }
      const decision = decide(PATIENCE, history, LOCKED, circumstances)
      if (decision.action === 'give_up') throw new StoreBusyError(`'${path}'`, { cause: error })
      history = advance(history, LOCKED, decision)
      await sleep(decision.delayMs, systemClock)
    }
  }
}
