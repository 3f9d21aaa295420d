import type { Clock, Sleeper, Timer } from '../time/index.js'

export const LATE = Symbol('late')

/** Ends the waiting for a source: when the time is up, once it has begun to run, or when the reader leaves. */
export class Patience implements Sleeper {
  /** Resolves when it is over. */
  readonly over: Promise<typeof LATE>
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #timer: Timer | undefined
  #resolve: (late: typeof LATE) => void = () => {}
  readonly #leave = () => this.wake()

  constructor(clock: Clock, signal: AbortSignal) {
    this.#clock = clock
    this.#signal = signal
    this.over = new Promise(resolve => {
      this.#resolve = resolve
    })
    if (signal.aborted) this.wake()
    else signal.addEventListener('abort', this.#leave, { once: true })
  }

  /** Lets the time run, unless it does already. */
  begin(delayMs: number): void {
    this.#timer ??= this.#clock.setTimer(this, delayMs)
  }

  wake(): void {
    this.#resolve(LATE)
  }

  end(): void {
    this.#signal.removeEventListener('abort', this.#leave)
    if (this.#timer !== undefined) this.#clock.clearTimer(this.#timer)
  }
}
