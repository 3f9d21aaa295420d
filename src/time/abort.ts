import type { Sleeper } from './clock.js'

/** Those who wait on one signal; the signal's only listener of ours. */
class Watchers extends Set<Sleeper> {
  handleEvent(): void {
    for (const sleeper of this) sleeper.wake()
  }
}

/**
 * Many sleepers may wait on one signal, so each costs no more than an entry in a set, and the listener goes with the
 * last of them. (A signal searches its own list of listeners from end to end.)
 */
const watchersOf = new WeakMap<AbortSignal, Watchers>()

/**
 * Signals that were aborted by someone who waits for the work under them to end all the same. A call under such a signal ends
 * with the function that it runs, not before it.
 */
export const awaited = /* @__PURE__ */ new WeakSet<AbortSignal>()

/** Wakes a sleeper when the signal aborts; never, if it has aborted already. */
export function watchAbort(signal: AbortSignal, sleeper: Sleeper): void {
  let watchers = watchersOf.get(signal)
  if (!watchers) {
    watchers = new Watchers()
    signal.addEventListener('abort', watchers, { once: true })
    watchersOf.set(signal, watchers)
  }
  watchers.add(sleeper)
}

/** Leaves the sleeper alone again. */
export function unwatchAbort(signal: AbortSignal, sleeper: Sleeper): void {
  const watchers = watchersOf.get(signal)
  if (!watchers?.delete(sleeper) || watchers.size > 0) return
  watchersOf.delete(signal)
  signal.removeEventListener('abort', watchers)
}
