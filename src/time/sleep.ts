import { unwatchAbort, watchAbort } from './abort.js'
import type { Clock } from './clock.js'

/** Resolves after a delay; rejects at once, with the signal's reason, when the signal aborts. */
export function sleep(delayMs: number, clock: Clock, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.reject(signal.reason)
  // No timer is shorter than 1 ms. The next turn of the event loop is, and still lets timers and I/O run.
  if (delayMs === 0) return new Promise(resolve => setImmediate(resolve))
  if (signal === undefined) return new Promise(resolve => clock.setTimer(resolve, delayMs))

  return new Promise((resolve, reject) => {
    const timer = clock.setTimer(() => {
      unwatchAbort(signal, onAbort)
      resolve()
    }, delayMs)
    const onAbort = () => {
      clock.clearTimer(timer)
      reject(signal.reason)
    }
    watchAbort(signal, onAbort)
  })
}
