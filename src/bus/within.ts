import { systemClock } from '../time/index.js'

/** Settles as the promise does, or rejects with `late()` after `ms` milliseconds. */
export function within<T>(promise: Promise<T>, ms: number, late: () => Error): Promise<T> {
  if (ms === Infinity) return promise
  return new Promise((resolve, reject) => {
    const timer = systemClock.setTimer({ wake: () => reject(late()) }, ms)
    promise.then(resolve, reject).finally(() => systemClock.clearTimer(timer))
  })
}
