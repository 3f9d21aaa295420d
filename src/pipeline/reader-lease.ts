import { RunBusyError, RunEndedError } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'

/** Three renewals per lease: two may be missed. */
const RENEWALS_PER_LEASE = 3

/** Renews the lease of a run's reader for as long as it reads, however slow its source is. */
export class ReaderLease implements Sleeper {
  readonly #renew: () => Promise<unknown>
  readonly #delayMs: number
  readonly #clock: Clock
  readonly #onLost: () => void
  #timer: Timer | undefined
  #isStopped = false

  /** `onLost` is called when there is nothing more to read: the run has ended, or another process reads it. */
  constructor(renew: () => Promise<unknown>, leaseMs: number, clock: Clock, onLost: () => void) {
    this.#renew = renew
    this.#delayMs = leaseMs / RENEWALS_PER_LEASE
    this.#clock = clock
    this.#onLost = onLost
  }

  start(): void {
    if (!this.#isStopped) this.#timer = this.#clock.setTimer(this, this.#delayMs)
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
  }

  wake(): void {
    this.#renew()
      // A store that is away is asked again with the next renewal.
      .catch(failure => {
        if (failure instanceof RunBusyError || failure instanceof RunEndedError) this.#onLost()
      })
      .finally(() => this.start())
  }
}
