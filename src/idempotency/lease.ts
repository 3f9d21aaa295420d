import { classify } from '../policy/index.js'
import { awaited, type Clock, sleep, unwatchAbort, watchAbort } from '../time/index.js'
import { AT_ONCE } from './write.js'

/** What a lease needs to know. */
export interface LeaseOptions {
  /** Renews it in the store; false once somebody else has the key. */
  readonly renew: () => Promise<boolean>
  readonly leaseMs: number
  readonly clock: Clock
  /** What the signal aborts with when the lease is lost. */
  readonly lost: () => unknown
  /** The caller's signal, which is passed on. */
  readonly caller: AbortSignal | undefined
}

/** Two renewals may fail before a lease runs out. */
const BEATS_PER_LEASE = 3

/** A key that is ours, kept so by a heartbeat until it is stopped. Its signal aborts when it is not ours any more. */
export class Lease {
  readonly #options: LeaseOptions
  readonly #controller = new AbortController()
  readonly #heart = new AbortController()
  readonly #onAbort = { wake: () => this.#passOn() }

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

  stop(): void {
    const { caller } = this.#options
    this.#heart.abort()
    if (caller !== undefined) unwatchAbort(caller, this.#onAbort)
  }

  /** Whoever aborts is not kept waiting, but the key is: until the function has ended, and the calls that it makes with it. */
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
    if (!signal.aborted) this.#controller.abort(lost())
  }

  /**
   * A renewal that fails says nothing of whose the key is, so the next beat asks again; unless that is of no use, since the
   * store was closed say. A function that never ends must not keep the process alive for it.
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
