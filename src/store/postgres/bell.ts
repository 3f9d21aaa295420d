import type { Bell } from '../verbs/base-store.js'
import type { Ends } from './ends.js'
import type { Signals } from './signals.js'

/** Calls those who watch a PostgreSQL store, in this process and in others. */
export class PostgresBell implements Bell {
  readonly #signals: Signals
  readonly #ends: Ends

  constructor(signals: Signals, ends: Ends) {
    this.#signals = signals
    this.#ends = ends
  }

  ring(): void {
    this.#signals.ring()
  }

  ended(tasks: readonly { readonly id: string }[]): void {
    this.#ends.ended(tasks)
  }

  /** A process that watches for work hears which tasks others wait for, since it may settle them. */
  watch(callback: () => void): () => void {
    const unwatch = this.#signals.add(callback)
    const unhear = this.#ends.hear()
    return () => {
      unwatch()
      unhear()
    }
  }

  watchEnd(id: string, callback: () => void): () => void {
    return this.#ends.add(id, callback)
  }

  stop(): void {
    this.#signals.stop()
    this.#ends.stop()
  }
}
