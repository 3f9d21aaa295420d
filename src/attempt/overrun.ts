import type { Overran } from '../telemetry/internal.js'
import type { Clock, Sleeper, Timer } from '../time/index.js'

/** A handler that ends within this time after its signal aborted has obeyed it: nobody need hear of that. */
const NOTICE_MS = 1000

/** A handler that ignores its signal keeps its slot for this long at most, and never for longer than its timeout. */
const MAX_OVERRUN_MS = 60_000

/** The callbacks of an overrun. */
export interface OverrunListener {
  /** The handler goes on, has ended, or is left to itself. */
  onNews(type: Overran['type'], durationMs: number): void
  /** The handler has been given enough time. */
  onLimit(): void
}

/** The time that a handler goes on after its signal aborted. It keeps its slot meanwhile, but not for ever. */
export class Overrun implements Sleeper {
  readonly #clock: Clock
  readonly #limitMs: number
  readonly #listener: OverrunListener
  readonly #startedAt: number
  #timer: Timer
  /** Whether the listener was told that it began, and not yet of its end. */
  #isOpen = false

  constructor(clock: Clock, timeoutMs: number | undefined, listener: OverrunListener) {
    this.#clock = clock
    this.#limitMs = Math.min(timeoutMs ?? MAX_OVERRUN_MS, MAX_OVERRUN_MS)
    this.#listener = listener
    this.#startedAt = clock.monotonic()
    this.#timer = clock.setTimer(this, Math.min(NOTICE_MS, this.#limitMs))
  }

  wake(): void {
    const durationMs = this.#clock.monotonic() - this.#startedAt
    if (!this.#isOpen) this.#listener.onNews('overrun_began', durationMs)
    this.#isOpen = true
    if (durationMs < this.#limitMs) {
      this.#timer = this.#clock.setTimer(this, this.#limitMs - durationMs)
      return
    }
    this.end('abandoned')
    this.#listener.onLimit()
  }

  /** The handler has ended, or is left to itself. */
  end(type: 'overrun_ended' | 'abandoned' = 'overrun_ended'): void {
    this.#clock.clearTimer(this.#timer)
    if (this.#isOpen) this.#listener.onNews(type, this.#clock.monotonic() - this.#startedAt)
    this.#isOpen = false
  }
}
