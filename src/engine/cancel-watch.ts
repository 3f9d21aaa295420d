import type { StoreContract } from '../store/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'

/** The rest between two looks. Work that is enqueued rings as well, thousands of times a second. */
const REST_MS = 250

/** Looks for running tasks that somebody cancelled, at once when the store changes and at most four times a second. */
export class CancelWatch implements Sleeper {
  readonly #look: () => Promise<void>
  readonly #clock: Clock
  #timer: Timer | undefined
  #isRung = false
  #isStopped = false

  constructor(
    store: Pick<StoreContract, 'cancelled'>,
    worker: string,
    clock: Clock,
    cancel: (tokens: readonly string[]) => void,
  ) {
    // A store that is away is asked again: by the next ring, or by a heartbeat.
    this.#look = () => store.cancelled(worker).then(cancel, () => {})
    this.#clock = clock
  }

  /** Something changed in the store. */
  ring(): void {
    if (this.#timer === undefined) this.#begin()
    else this.#isRung = true
  }

  /** The rest is over. */
  wake(): void {
    this.#timer = undefined
    if (this.#isRung) this.#begin()
  }

  stop(): void {
    this.#isStopped = true
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
  }

  #begin(): void {
    this.#isRung = false
    void this.#look()
    if (!this.#isStopped) this.#timer = this.#clock.setTimer(this, REST_MS)
  }
}
