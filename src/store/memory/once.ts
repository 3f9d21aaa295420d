import type { IdempotencyStore } from '../../idempotency/index.js'
import { StaleFenceError } from '../contract/errors.js'
import type { OnceOptions } from '../contract/store.js'
import { knownResult, onceFingerprint, onceResult } from '../rules/once.js'

/** Long enough that no key is taken over while its function still runs in this process. */
const LEASE_MS = 24 * 3_600_000

/** Runs functions once per key. There is no transaction to give them, so they may be asynchronous. */
export class MemoryOnce {
  /** The functions under way, by key. These promises do not reject. */
  readonly #running = new Map<string, Promise<unknown>>()
  readonly #keys: IdempotencyStore
  readonly #isHeld: (fence: { readonly id: string; readonly token: string }) => boolean

  constructor(keys: IdempotencyStore, isHeld: (fence: { readonly id: string; readonly token: string }) => boolean) {
    this.#keys = keys
    this.#isHeld = isHeld
  }

  async run<T>(key: string, work: (tx: never) => T, { params, fence }: OnceOptions): Promise<Awaited<T>> {
    const fingerprint = onceFingerprint(key, params)
    while (this.#running.has(key)) await this.#running.get(key)
    const run = this.#claimAndRun(key, fingerprint, work, fence)
    const ended = () => this.#running.delete(key)
    this.#running.set(key, run.then(ended, ended))
    return run
  }

  async #claimAndRun<T>(
    key: string,
    fingerprint: string,
    work: (tx: never) => T,
    fence: OnceOptions['fence'],
  ): Promise<Awaited<T>> {
    const claim = await this.#keys.claim(key, { fingerprint, leaseMs: LEASE_MS })
    // Only the caller knows the type of the result that was stored under its key.
    if (claim.state !== 'fresh') return knownResult(key, fingerprint, claim) as Awaited<T>
    try {
      // The fence guards the run, not the result: a stored result is given to anybody.
      if (fence !== undefined && !this.#isHeld(fence)) throw new StaleFenceError(key, fence.id)
      const result = await work(undefined as never)
      await this.#keys.complete(key, claim.token, onceResult(key, result))
      return result
    } catch (error) {
      await this.#keys.release(key, claim.token)
      throw error
    }
  }
}
