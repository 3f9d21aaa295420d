import type { Clock } from '../time/index.js'
import type { Lease } from './lease.js'
import { unavailable } from './result-codec.js'
import type { IdempotencyDone, IdempotencyStore } from './store.js'
import { AT_ONCE, LATER, write } from './write.js'

/** Work that has succeeded under a key, and whose result is to be recorded. */
export interface Finished {
  readonly key: string
  readonly fingerprint: string
  readonly token: string
  /** The result, as text. */
  readonly text: string
  /** Stopped once the key needs it no more. */
  readonly lease: Lease
  /** Says what happens to the key. */
  readonly tell: (news: IdempotencyNews) => void
}

/** What the guard says of a key, before it is an event about a piece of work. */
export type IdempotencyNews =
  | { readonly type: 'idempotency_hit' | 'idempotency_recorded' }
  | { readonly type: 'idempotency_not_recorded'; readonly failure: unknown }

/**
 * Records results. One that the store does not take is kept here for the callers in this process, its lease renewed
 * against all others, while the write is tried again in the background.
 */
export class Recorder {
  readonly #store: IdempotencyStore
  readonly #options: { readonly clock: Clock; readonly random: () => number }
  readonly #kept = new Map<string, IdempotencyDone>()
  readonly #closing = new AbortController()

  constructor(store: IdempotencyStore, clock: Clock, random: () => number) {
    this.#store = store
    this.#options = { clock, random }
  }

  /** What a claim would find if the store had taken the result. */
  kept(key: string): IdempotencyDone | undefined {
    return this.#kept.get(key)
  }

  forget(key: string): void {
    this.#kept.delete(key)
  }

  /** Tries one last time to write what is kept, and gives it up. */
  close(): void {
    this.#closing.abort()
  }

  /** Whether the result counts. It does not if another has taken the key over. Never rejects. */
  async record(finished: Finished): Promise<boolean> {
    const { lease, tell } = finished
    const written = await write(() => this.#complete(finished), AT_ONCE, this.#options)
    if ('failure' in written) {
      tell({ type: 'idempotency_not_recorded', failure: written.failure })
      void this.#keep(finished)
      return true
    }
    lease.stop()
    if (written.answer) tell({ type: 'idempotency_recorded' })
    return written.answer
  }

  async #keep(finished: Finished): Promise<void> {
    const { key, fingerprint, text, lease, tell } = finished
    const kept: IdempotencyDone = { state: 'done', fingerprint, result: text }
    const { signal } = this.#closing
    this.#kept.set(key, kept)

    let written = await write(() => this.#complete(finished), LATER, { ...this.#options, signal })
    if ('failure' in written) {
      // Perhaps it is too large for the store. The work must still not be run again.
      const marked = { ...finished, text: unavailable('the store did not take it') }
      written = await write(() => this.#complete(marked), AT_ONCE, { ...this.#options, signal })
    }
    lease.stop()
    if (this.#kept.get(key) === kept) this.#kept.delete(key)
    if ('answer' in written && written.answer) tell({ type: 'idempotency_recorded' })
  }

  #complete({ key, token, text }: Finished): Promise<boolean> {
    return this.#store.complete(key, token, text)
  }
}
