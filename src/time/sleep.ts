import { unwatchAbort, watchAbort } from './abort.js'
import type { Clock } from './clock.js'
import { soon } from './soon.js'

/** Resolves after a delay; rejects at once, with the signal's reason, when the signal aborts. */
export function sleep(delayMs: number, clock: Clock, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    if (delayMs === 0) return soon({ wake: () => (signal?.aborted ? reject(signal.reason) : resolve()) })
    const wake = () => {
      if (signal !== undefined) unwatchAbort(signal, onAbort)
      resolve()
    }
    const timer = clock.setTimer({ wake }, delayMs)
    const onAbort = {
      wake: () => {
        clock.clearTimer(timer)
        reject(signal?.reason)
      },
    }
    if (signal !== undefined) watchAbort(signal, onAbort)
  })
}
