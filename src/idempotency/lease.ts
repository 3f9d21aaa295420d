import { classify } from '../policy/index.js'
import { awaited, type Clock, sleep, unwatchAbort, watchAbort } from '../time/index.js'
import { AT_ONCE } from './write.js'

/** The options of a lease. */
export interface LeaseOptions {
  /** Renews the lease in the store. Resolves with false once another caller has the key. */
  readonly renew: () => Promise<boolean>
  readonly leaseMs: number
  readonly clock: Clock
  /** Creates the reason that the signal aborts with when the lease is lost. */
  readonly lost: () => unknown
  /** The caller's signal. Its abort is passed on. */
  readonly caller: AbortSignal | undefined
}

/** Two renewals in a row may fail before a lease expires. */
const BEATS_PER_LEASE = 3

/** Holds a key by renewing its lease until stopped. Its signal aborts when the lease is lost. */
export class Lease {
  readonly #options: LeaseOptions
  readonly #controller = new AbortController()
  readonly #heart = new AbortController()
  readonly #onAbort = { wake: () => this.#passOn() }
  #isLost = false

  constructor(options: LeaseOptions) {
    this.#options = options
    const { caller } = options
    if (caller?.aborted) this.#onAbort.wake()
    else if (caller !== undefined) watchAbort(caller, this.#onAbort)
    void this.#beat()
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Whether the signal aborted because another caller has the key. */
  get isLost(): boolean {
    return this.#isLost
  }

  stop(): void {
    const { caller } = this.#options
    this.#heart.abort()
    if (caller !== undefined) unwatchAbort(caller, this.#onAbort)
  }

  /**
   * Passes the caller's abort on. The caller returns at once; the key stays held until the function and its calls end.
   */
  #passOn(): void {
    awaited.add(this.signal)
    this.#controller.abort(this.#options.caller?.reason)
  }

  async #beat(): Promise<void> {
    const { leaseMs, clock, lost } = this.#options
    const { signal } = this.#heart
    let ours = true
    while (ours) {
      await sleep(leaseMs / BEATS_PER_LEASE, clock, signal).catch(() => {})
      if (signal.aborted) return
      ours = await this.#renew()
    }
    if (signal.aborted || this.signal.aborted) return
    this.#isLost = true
    this.#controller.abort(lost())
  }

  /**
   * Renews the lease. A failed renewal does not tell who owns the key, so the next heartbeat asks again, except after a
   * final failure, such as a closed store: a function that never ends must not keep the process alive with heartbeats.
   */
  async #renew(): Promise<boolean> {
    const { renew, clock } = this.#options
    try {
      return await renew()
    } catch (failure) {
      return classify(failure, AT_ONCE, clock.now()).class !== 'final'
    }
  }
}
