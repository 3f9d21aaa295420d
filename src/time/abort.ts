import type { Sleeper } from './clock.js'

/** The sleepers that wait on one signal, behind a single listener. */
class Watchers extends Set<Sleeper> {
  handleEvent(): void {
    for (const sleeper of this) sleeper.wake()
  }
}

/**
 * Many sleepers may wait on one signal, so each costs only an entry in a set; the listener is removed with the last
 * one. (With a listener each, a signal would search its list of listeners from end to end.)
 */
const watchersOf = new WeakMap<AbortSignal, Watchers>()

/**
 * Aborted signals whose aborter still waits for the work under them to end. A call under such a signal ends together
 * with the function that it runs, not before it.
 */
export const awaited = /* @__PURE__ */ new WeakSet<AbortSignal>()

/** Wakes a sleeper when the signal aborts. Never wakes it if the signal has already aborted. */
export function watchAbort(signal: AbortSignal, sleeper: Sleeper): void {
  let watchers = watchersOf.get(signal)
  if (!watchers) {
    watchers = new Watchers()
    signal.addEventListener('abort', watchers, { once: true })
    watchersOf.set(signal, watchers)
  }
  watchers.add(sleeper)
}

/** Stops watching the signal for a sleeper. */
export function unwatchAbort(signal: AbortSignal, sleeper: Sleeper): void {
  const watchers = watchersOf.get(signal)
  if (!watchers?.delete(sleeper) || watchers.size > 0) return
  watchersOf.delete(signal)
  signal.removeEventListener('abort', watchers)
}
