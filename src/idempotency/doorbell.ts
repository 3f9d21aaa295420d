import { type Clock, sleep, unwatchAbort, watchAbort } from '../time/index.js'

/**
 * Wakes callers in this process that wait for a key, so that they need not poll the store. A ring before the wait is
 * lost, which is safe: every wait also ends by itself.
 */
export class Doorbell {
  readonly #clock: Clock
  readonly #waiting = new Map<string, Set<AbortController>>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Resolves after the delay or when the bell rings; rejects at once, with the signal's reason, when that aborts. */
  async wait(key: string, delayMs: number, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted()
    const waiting = this.#waiting.get(key) ?? new Set()
    const sleeper = new AbortController()
    const onAbort = { wake: () => sleeper.abort() }
    this.#waiting.set(key, waiting.add(sleeper))
    if (signal !== undefined) watchAbort(signal, onAbort)
    try {
      await sleep(delayMs, this.#clock, sleeper.signal)
    } catch {
      signal?.throwIfAborted()
    } finally {
      waiting.delete(sleeper)
      if (waiting.size === 0) this.#waiting.delete(key)
      if (signal !== undefined) unwatchAbort(signal, onAbort)
    }
  }

  /** Wakes everyone who waits for the key. */
  ring(key: string): void {
    for (const sleeper of this.#waiting.get(key) ?? []) sleeper.abort()
  }
}
