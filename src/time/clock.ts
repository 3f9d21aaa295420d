/** Where time comes from. Everything that waits or measures takes one, so that tests need not wait. */
export interface Clock {
  /** Milliseconds since the epoch: for what is written down. May jump when the machine's clock is set. */
  now(): number
  /** Milliseconds since some moment, never going back: for what is measured. */
  monotonic(): number
  /** Wakes a sleeper once, after any finite delay, however long. Returns what `clearTimer` takes. */
  setTimer(sleeper: Sleeper, delayMs: number): Timer
  /** Lets a timer go, so that it wakes nobody. */
  clearTimer(timer: Timer): void
}

/** What a clock or a signal wakes. An object rather than a function, so that what waits need not hold a closure of its own. */
export interface Sleeper {
  wake(): void
}

/** A timer as the clock that set it knows it. */
export type Timer = object

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer,
  clearTimer: (timer: NodeJS.Timeout) => clearInterval(timer),
}

/** The longest delay that Node's own timers take, but for the millisecond below; a longer one would fire at once. */
const MAX_TIMER_MS = 2 ** 31 - 2

/** Waits in as many turns of equal length as the delay needs. */
function setTimer(sleeper: Sleeper, delayMs: number): NodeJS.Timeout {
  let turns = Math.ceil(delayMs / MAX_TIMER_MS) || 1
  const wake = () => {
    if (--turns > 0) return
    clearInterval(timer)
    sleeper.wake()
  }
  // Node counts whole milliseconds, from the beginning of the present one: without one more it would fire too soon.
  const timer = setInterval(wake, Math.ceil(delayMs / turns) + 1)
  return timer
}
