import { type Duration, parseDuration } from '../policy/index.js'
import type { Clock, Sleeper } from '../time/index.js'

/** A clock that stands still until it is advanced, so that a test of a day of retries takes a millisecond. */
export interface FakeClock extends Clock {
  /**
   * Advances the time, and fires each timer when it is due. The code that it wakes runs before the next timer fires.
   */
  advance(duration: Duration): Promise<void>
  /** Advances from timer to timer until none is left. */
  runAll(): Promise<void>
  /** Sets the wall clock, as an operator or NTP would. Timers and the monotonic time are not affected. */
  setNow(now: number | Date): void
  /** How many timers are waiting. */
  readonly timers: number
}

interface FakeTimer {
  readonly at: number
  readonly sleeper: Sleeper
}

/** Creates a clock for tests. It starts at the given time, by default at the start of the year 2000. */
export function fakeClock(start: number | Date = Date.UTC(2000, 0, 1)): FakeClock {
  let wallOffset = Number(start)
  let elapsed = 0
  const timers = new Set<FakeTimer>()

  const next = () =>
    [...timers].reduce<FakeTimer | undefined>(
      (first, timer) => (first && first.at <= timer.at ? first : timer),
      undefined,
    )

  async function runUntil(end: number): Promise<void> {
    await settle()
    for (let timer = next(); timer !== undefined && timer.at <= end; timer = next()) {
      timers.delete(timer)
      elapsed = Math.max(elapsed, timer.at)
      timer.sleeper.wake()
      await settle()
    }
  }

  return {
    now: () => wallOffset + elapsed,
    monotonic: () => elapsed,
    setTimer(sleeper, delayMs) {
      const timer = { at: elapsed + delayMs, sleeper }
      timers.add(timer)
      return timer
    },
    clearTimer: timer => void timers.delete(timer as FakeTimer),
    async advance(duration) {
      const ms = parseDuration(duration)
      if (ms === undefined) throw new RangeError(`advance() takes a duration such as 250 or '1h', got ${duration}`)
      const end = elapsed + ms
      await runUntil(end)
      elapsed = Math.max(elapsed, end)
    },
    runAll: () => runUntil(Infinity),
    setNow: now => {
      wallOffset = Number(now) - elapsed
    },
    get timers() {
      return timers.size
    },
  }
}

/** Lets everything that is ready run: promises, and the turns of the event loop that zero delays wait for. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise(resolve => setImmediate(resolve))
}
