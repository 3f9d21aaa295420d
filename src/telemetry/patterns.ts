import { OptionError } from '../policy/index.js'
import { type Clock, systemClock } from '../time/index.js'
import { MinuteCount } from './minute-count.js'
import type { WorkEvent } from './work-events.js'

/** Statistics on the work of one category. */
export interface RetryPattern {
  /** The number of pieces of work that have succeeded or failed. Aborted work does not count. */
  readonly calls: number
  /** The number of attempts that have ended, including those of work still being retried. Deferrals do not count. */
  readonly totalAttempts: number
  /** The share of `calls` that succeeded; `undefined` while there are no calls. */
  readonly successRate: number | undefined
  /** Attempts per call; `undefined` while there are no calls. */
  readonly averageAttempts: number | undefined
  /** Retries and deferrals in the last minute, to the second. */
  readonly retriesPerMinute: number
}

/** Raised when a category is retried more often than the threshold allows. */
export interface RetryAlert {
  /** The category that has too many retries. */
  readonly category: string
  /** Its retries in the last minute. */
  readonly retriesPerMinute: number
  /** The number that it has passed. */
  readonly alertAbovePerMinute: number
}

/** The options of `retryPatterns`. @inline */
export interface RetryPatternsOptions {
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
  /** The number of retries per minute above which a category raises an alert. Default: no alerts. */
  readonly alertAbovePerMinute?: number | undefined
  /** Called once when a category exceeds the threshold, and again only after it has fallen below. */
  readonly onAlert?: ((alert: RetryAlert) => void | PromiseLike<void>) | undefined
}

/** A sink that keeps statistics on the work of each category. */
export interface RetryPatterns {
  (event: WorkEvent): void | PromiseLike<void>
  /** Returns the statistics by category. Work without a category is under `DEFAULT`. */
  summary(): Record<string, RetryPattern>
}

/** With more categories than this, somebody is passing ids as categories: the rest is counted together. */
const MAX_CATEGORIES = 1000
const REST = 'OTHER'

/**
 * Creates a sink that watches retries by category.
 *
 * ```ts
 * const patterns = retryPatterns({ alertAbovePerMinute: 100, onAlert: ({ category }) => page(category) })
 * await retry(charge, { attempts: 3 }, { category: 'PAYMENT', sink: patterns })
 * patterns.summary().PAYMENT // { calls: 1, totalAttempts: 2, successRate: 1, … }
 * ```
 */
export function retryPatterns(options: RetryPatternsOptions = {}): RetryPatterns {
  const { clock = systemClock, alertAbovePerMinute = Infinity, onAlert } = options
  if (!(alertAbovePerMinute >= 0)) {
    const problem = `'alertAbovePerMinute' must be a number, 0 or more, got ${alertAbovePerMinute}.`
    throw new OptionError('alertAbovePerMinute', problem)
  }
  const categories = new Map<string, Counts>()
  return Object.assign(retryPatternsSink, { summary })

  function retryPatternsSink(event: WorkEvent): void | PromiseLike<void> {
    const counts = countsOf(event.work.category ?? 'DEFAULT')
    switch (event.type) {
      case 'attempt_succeeded':
        counts.totalAttempts++
        return counts.end(event.attempt, true)
      case 'gave_up':
        if (event.reason === 'aborted') return
        // An open breaker prevents the next attempt; the last one was counted when its retry was scheduled.
        if (event.reason !== 'breaker_open') counts.totalAttempts++
        return counts.end(event.attempt, false)
      case 'retry_scheduled':
        counts.totalAttempts++
        return retried(counts)
      case 'deferred':
        return retried(counts)
      default: // Other events are not counted.
        return
    }
  }

  function retried(counts: Counts): void | PromiseLike<void> {
    const now = clock.monotonic()
    const before = counts.retries.count(now)
    if (before < alertAbovePerMinute || before === 0) counts.alerted = false
    counts.retries.add(now)
    const retriesPerMinute = before + 1
    if (counts.alerted || retriesPerMinute <= alertAbovePerMinute) return
    counts.alerted = true
    return onAlert?.({ category: counts.category, retriesPerMinute, alertAbovePerMinute })
  }

  function countsOf(category: string): Counts {
    const known = categories.get(category)
    if (known !== undefined) return known
    if (categories.size >= MAX_CATEGORIES && category !== REST) return countsOf(REST)
    const counts = new Counts(category)
    categories.set(category, counts)
    return counts
  }

  function summary(): Record<string, RetryPattern> {
    const now = clock.monotonic()
    return Object.fromEntries([...categories].map(([category, counts]) => [category, counts.summary(now)]))
  }
}

class Counts {
  readonly retries = new MinuteCount()
  totalAttempts = 0
  alerted = false
  #calls = 0
  #succeeded = 0
  #attemptsOfCalls = 0

  constructor(readonly category: string) {}

  end(attempts: number, succeeded: boolean): void {
    this.#calls++
    this.#attemptsOfCalls += attempts
    if (succeeded) this.#succeeded++
  }

  summary(now: number): RetryPattern {
    const calls = this.#calls
    return {
      calls,
      totalAttempts: this.totalAttempts,
      successRate: calls === 0 ? undefined : this.#succeeded / calls,
      averageAttempts: calls === 0 ? undefined : this.#attemptsOfCalls / calls,
      retriesPerMinute: this.retries.count(now),
    }
  }
}
