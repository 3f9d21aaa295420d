/**
 * Many callers may wait on one signal, so that each costs no more than an entry in a set: the signal itself gets one
 * listener, which goes when nobody waits any more. (A signal's own list of listeners is searched from end to end.)
 */
const waiting = new WeakMap<AbortSignal, Watchers>()

interface Watchers {
  readonly callbacks: Set<() => void>
  readonly listener: () => void
}

/** Calls back when the signal aborts; never, if it has aborted already. */
export function watchAbort(signal: AbortSignal, callback: () => void): void {
  let watchers = waiting.get(signal)
  if (watchers === undefined) {
    const callbacks = new Set<() => void>()
    watchers = { callbacks, listener: () => wake(signal, callbacks) }
    waiting.set(signal, watchers)
    signal.addEventListener('abort', watchers.listener)
  }
  watchers.callbacks.add(callback)
}

export function unwatchAbort(signal: AbortSignal, callback: () => void): void {
  const watchers = waiting.get(signal)
  if (watchers === undefined) return
  watchers.callbacks.delete(callback)
  if (watchers.callbacks.size > 0) return
  waiting.delete(signal)
  signal.removeEventListener('abort', watchers.listener)
}

function wake(signal: AbortSignal, callbacks: Set<() => void>): void {
  waiting.delete(signal)
  for (const callback of callbacks) callback()
}
