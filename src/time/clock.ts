/** Where time comes from. Everything that waits or measures takes one, so that tests need not wait. */
export interface Clock {
  /** Milliseconds since the epoch: for what is written down. May jump when the machine's clock is set. */
  now(): number
  /** Milliseconds since some moment, never going back: for what is measured. */
  monotonic(): number
  /** Calls back once, after any delay, however long. */
  setTimer(callback: () => void, delayMs: number): unknown
  clearTimer(timer: unknown): void
}

/** The longest delay that Node's own timers take; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: (callback, delayMs) =>
    delayMs <= MAX_TIMER_MS ? setTimeout(callback, delayMs) : new LongTimer(callback, delayMs),
  clearTimer(timer) {
    if (timer instanceof LongTimer) timer.clear()
    else clearTimeout(timer as NodeJS.Timeout)
  },
}

/** A delay of more than 24.8 days, waited for in pieces. */
class LongTimer {
  #timer: NodeJS.Timeout | undefined

  constructor(callback: () => void, delayMs: number) {
    const piece = Math.min(delayMs, MAX_TIMER_MS)
    this.#wait(callback, delayMs - piece, piece)
  }

  #wait(callback: () => void, restMs: number, piece: number): void {
    this.#timer = setTimeout(() => {
      if (restMs <= 0) return callback()
      const next = Math.min(restMs, MAX_TIMER_MS)
      this.#wait(callback, restMs - next, next)
    }, piece)
  }

  clear(): void {
    clearTimeout(this.#timer)
  }
}
