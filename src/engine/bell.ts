import type { Clock, Sleeper, Timer } from '../time/index.js'

/** Wakes one loop when it is rung, or when the time is up. A ring while nobody waits is kept for the next wait. */
export class Bell implements Sleeper {
  readonly #clock: Clock
  #isRung = false
  #resolve: (() => void) | undefined
  #timer: Timer | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  ring(): void {
    this.#isRung = true
    this.wake()
  }

  /** Resolves when the bell rings, or after the delay. */
  async wait(maxMs: number): Promise<void> {
    if (!this.#isRung && maxMs > 0) {
      await new Promise<void>(resolve => {
        this.#resolve = resolve
        this.#timer = maxMs === Infinity ? undefined : this.#clock.setTimer(this, maxMs)
      })
    }
    this.#isRung = false
  }

  wake(): void {
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
    this.#timer = undefined
    this.#resolve?.()
    this.#resolve = undefined
  }
}
