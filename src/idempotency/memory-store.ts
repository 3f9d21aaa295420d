import { type Duration, OptionError, parseDuration } from '../policy/index.js'
import { type Clock, systemClock } from '../time/index.js'
import type { IdempotencyClaim, IdempotencyClaimRequest, IdempotencyStore } from './store.js'

/** The options of a `MemoryIdempotencyStore`. @inline */
export interface MemoryIdempotencyStoreOptions {
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
  /** How long a done key is remembered. Default: until it is cleared, so memory use only grows. */
  readonly keepFor?: Duration | undefined
}

interface Owned {
  readonly fingerprint: string
  readonly token: string
  leaseUntil: number
}

interface Done {
  readonly fingerprint: string
  readonly token: string
  readonly result: string
  readonly doneAt: number
}

/** Keeps idempotency keys in this process, for tests and for keys that need not outlive the process. */
export class MemoryIdempotencyStore implements IdempotencyStore {
  readonly #clock: Clock
  readonly #keepForMs: number
  readonly #owned = new Map<string, Owned>()
  /** Ordered by completion, so that the first key to expire comes first. */
  readonly #done = new Map<string, Done>()

  constructor({ clock = systemClock, keepFor }: MemoryIdempotencyStoreOptions = {}) {
    const keepForMs = keepFor === undefined ? Infinity : parseDuration(keepFor)
    if (!keepForMs)
      throw new OptionError('keepFor', `'keepFor' must be a duration above 0 such as '24h', got ${String(keepFor)}.`)
    this.#clock = clock
    this.#keepForMs = keepForMs
  }

  /** The number of keys. */
  get size(): number {
    return this.#owned.size + this.#done.size
  }

  async claim(key: string, { fingerprint, leaseMs }: IdempotencyClaimRequest): Promise<IdempotencyClaim> {
    const now = this.#clock.monotonic()
    this.prune(this.#keepForMs, Infinity)
    const done = this.#done.get(key)
    if (done !== undefined) return { state: 'done', fingerprint: done.fingerprint, result: done.result }

    const owned = this.#owned.get(key)
    if (owned !== undefined && (owned.leaseUntil > now || owned.fingerprint !== fingerprint)) {
      const leaseLeftMs = Math.max(0, Math.ceil(owned.leaseUntil - now))
      return { state: 'in_progress', fingerprint: owned.fingerprint, leaseLeftMs }
    }
    const token = crypto.randomUUID()
    this.#owned.set(key, { fingerprint, token, leaseUntil: now + leaseMs })
    return { state: 'fresh', token }
  }

  async renew(key: string, token: string, leaseMs: number): Promise<boolean> {
    const owned = this.#ownedWith(key, token)
    if (owned === undefined) return false
    owned.leaseUntil = this.#clock.monotonic() + leaseMs
    return true
  }

  async complete(key: string, token: string, result: string): Promise<boolean> {
    const owned = this.#ownedWith(key, token)
    if (owned === undefined) return this.#done.get(key)?.token === token
    this.#owned.delete(key)
    this.#done.set(key, { fingerprint: owned.fingerprint, token, result, doneAt: this.#clock.monotonic() })
    return true
  }

  async release(key: string, token: string): Promise<void> {
    if (this.#ownedWith(key, token) !== undefined) this.#owned.delete(key)
  }

  async clear(key: string): Promise<void> {
    this.#owned.delete(key)
    this.#done.delete(key)
  }

  /**
   * Forgets at most `limit` keys that have been done for `keepMs` or longer, and returns their number. Scans one more.
   */
  prune(keepMs: number, limit: number): number {
    const before = this.#clock.monotonic() - keepMs
    let count = 0
    for (const [key, { doneAt }] of this.#done) {
      if (count >= limit || doneAt > before) break
      this.#done.delete(key)
      count++
    }
    return count
  }

  /** The number of keys that have been done for `keepMs` or longer. */
  prunable(keepMs: number): number {
    const before = this.#clock.monotonic() - keepMs
    return [...this.#done.values()].filter(({ doneAt }) => doneAt <= before).length
  }

  #ownedWith(key: string, token: string): Owned | undefined {
    const owned = this.#owned.get(key)
    return owned?.token === token ? owned : undefined
  }
}
