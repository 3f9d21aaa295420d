/** Those who wait on one signal; the signal's only listener of ours. */
class Watchers extends Set<() => void> {
  handleEvent(): void {
    for (const callback of this) callback()
  }
}

const ONCE = { once: true }

/**
 * Many callers may wait on one signal, so each costs no more than an entry in a set, and the listener goes with the last
 * of them. (A signal searches its own list of listeners from end to end.)
 */
const watchersOf = new WeakMap<AbortSignal, Watchers>()

/** Calls back when the signal aborts; never, if it has aborted already. */
export function watchAbort(signal: AbortSignal, callback: () => void): void {
  let watchers = watchersOf.get(signal)
  if (!watchers) {
    watchers = new Watchers()
    signal.addEventListener('abort', watchers, ONCE)
    watchersOf.set(signal, watchers)
  }
  watchers.add(callback)
}

/** No longer calls back. */
export function unwatchAbort(signal: AbortSignal, callback: () => void): void {
  const watchers = watchersOf.get(signal)
  if (!watchers?.delete(callback) || watchers.size > 0) return
  watchersOf.delete(signal)
  signal.removeEventListener('abort', watchers)
}
