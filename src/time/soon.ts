import type { Sleeper } from './clock.js'

/** The number of sleepers to wake in a row before the event loop gets a turn. */
const IN_A_ROW = 128

let count = 0

/** Shared, since a resolved promise each would be made for nothing. */
const resolved = /* @__PURE__ */ Promise.resolve()

/**
 * Wakes a sleeper right after the current code, without a timer, since timers take at least 1 ms. A turn of the event
 * loop costs more than most retries, so only one sleeper in 128 waits for one. That is enough for timers and I/O to
 * run, no matter how many retries without a delay follow each other.
 */
export function soon(sleeper: Sleeper): void {
  // Bind rather than wrap: a wrapper would add a costly frame to the stack of every error.
  const wake = sleeper.wake.bind(sleeper)
  if (++count % IN_A_ROW) void resolved.then(wake)
  else setImmediate(wake)
}
