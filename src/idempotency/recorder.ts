import type { Clock } from '../time/index.js'
import type { Lease } from './lease.js'
import { unavailable } from './result-codec.js'
import type { IdempotencyDone, IdempotencyStore } from './store.js'
import { AT_ONCE, LATER, write } from './write.js'

/** Work that has succeeded under a key, with the result to record. */
export interface Finished {
  readonly key: string
  readonly fingerprint: string
  readonly token: string
  /** The result, as text. */
  readonly text: string
  /** The lease of the key, stopped once it is no longer needed. */
  readonly lease: Lease
  /** Reports what happens to the key. */
  readonly tell: (news: IdempotencyNews) => void
}

/** News about a key, to which the guard adds the work to make it a work event. */
export type IdempotencyNews =
  | { readonly type: 'idempotency_hit' | 'idempotency_recorded' }
  | { readonly type: 'idempotency_not_recorded'; readonly failure: unknown }

/**
 * Records results. If the store refuses one, the recorder keeps it for callers in this process and retries the write in
 * the background. Meanwhile the renewed lease keeps all other callers out.
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

  /** Returns the claim that the store would answer with if it had taken the result. */
  kept(key: string): IdempotencyDone | undefined {
    return this.#kept.get(key)
  }

  forget(key: string): void {
    this.#kept.delete(key)
  }

  /** Tries once more to write the kept results, then drops them. */
  close(): void {
    this.#closing.abort()
  }

  /** Resolves with whether the result counts, which it does unless another took the key over. Never rejects. */
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
      // The result may be too large for the store. Record the key as done without it, so that the work does not run
      // again.
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
