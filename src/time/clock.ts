import { TimerQueue } from './timer-queue.js'

/** Where time comes from. Everything that waits or measures takes one, so that tests need not wait. */
export interface Clock {
  /** Milliseconds since the epoch: for what is written down. May jump when the machine's clock is set. */
  now(): number
  /** Milliseconds since some moment, never going back: for what is measured. */
  monotonic(): number
  /** Wakes a sleeper once, after any delay, however long. Returns what `clearTimer` takes. */
  setTimer(sleeper: Sleeper, delayMs: number): Timer
  clearTimer(timer: Timer): void
}

/** What a clock wakes. An object rather than a function, so that what waits need not hold a closure of its own. */
export interface Sleeper {
  wake(): void
}

/** A timer as the clock that set it knows it. */
export type Timer = object

const queue = /* @__PURE__ */ new TimerQueue()

/** The machine's clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer: (sleeper, delayMs) => queue.add(sleeper, delayMs),
  clearTimer: timer => queue.remove(timer as ReturnType<TimerQueue['add']>),
}
