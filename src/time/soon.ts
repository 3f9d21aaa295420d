import type { Sleeper } from './clock.js'

/** How many sleepers in a row may be woken before the event loop gets a turn. */
const IN_A_ROW = 8

let count = 0

/**
 * Wakes a sleeper after the code that runs now, without a timer: none is shorter than 1 ms. A turn of the event loop
 * costs more than most retries do, so only every eighth sleeper waits for one; that is enough for timers and I/O to run
 * however many retries without a delay follow each other.
 */
export function soon(sleeper: Sleeper): void {
  // Bound, since a function around it would be one more frame in the stack of every error, and those are costly.
  const wake = sleeper.wake.bind(sleeper)
  if (++count % IN_A_ROW) void Promise.resolve().then(wake)
  else setImmediate(wake)
}
