/** A source of time. Everything that waits or measures takes one, so that tests need not wait. */
export interface Clock {
  /** Returns milliseconds since the epoch, for timestamps. May jump when the machine's clock is set. */
  now(): number
  /** Returns milliseconds since some fixed moment, for measuring. Never goes back. */
  monotonic(): number
  /** Wakes a sleeper once, after any finite delay, however long. Returns the timer, for `clearTimer`. */
  setTimer(sleeper: Sleeper, delayMs: number): Timer
  /** Cancels a timer. */
  clearTimer(timer: Timer): void
}

/** Gets woken by a clock or a signal. An object rather than a function, so that a waiting caller needs no closure. */
export interface Sleeper {
  /** Called when the time is up, or the signal aborts. */
  wake(): void
}

/** A timer, opaque to all but the clock that set it. */
export type Timer = object

/**
 * Looking up Node's global `performance` takes as long as reading the clock, so it is looked up once. While `setTimeout` is
 * not the real one, a test runs on fake timers, and the global `performance` is looked up each time.
 */
const real = { performance, setTimeout }

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => (setTimeout === real.setTimeout ? real.performance : performance).now(),
  setTimer,
  clearTimer: (timer: NodeJS.Timeout) => clearTimeout(timer),
}

/** The longest delay that Node's timers accept, minus the millisecond added below. A longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 2

/**
 * Each sleeper has a timer of Node's own, so that it wakes in the asynchronous context of whoever set it: what
 * `AsyncLocalStorage` holds there is that of the caller.
 */
function setTimer(sleeper: Sleeper, delayMs: number): NodeJS.Timeout {
  if (delayMs > MAX_TIMER_MS) return setLongTimer(sleeper, delayMs)
  // Node counts whole milliseconds from the beginning of the current one: add one, or it would fire too soon. Bind rather
  // than wrap: a wrapper would take more memory, and add a costly frame to the stack of every error.
  return setTimeout(sleeper.wake.bind(sleeper), Math.ceil(delayMs) + 1)
}

/** Splits the delay into as many equal turns as it needs. */
function setLongTimer(sleeper: Sleeper, delayMs: number): NodeJS.Timeout {
  let turns = Math.ceil(delayMs / MAX_TIMER_MS)
  const turn = () => {
    if (--turns > 0) return
    clearInterval(timer)
    sleeper.wake()
  }
  const timer = setInterval(turn, Math.ceil(delayMs / turns) + 1)
  return timer
}
