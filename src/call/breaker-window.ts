/** The outcomes that a closed circuit breaker looks at. */
export interface BreakerWindow {
  /** Takes an outcome, at a monotonic time. Says whether the breaker has to open. */
  isFailingAfter(succeeded: boolean, now: number): boolean
  /** Forgets all outcomes. */
  clear(): void
}

/** Opens after a number of failures in a row. */
export class FailuresInARow implements BreakerWindow {
  readonly #limit: number
  #failed = 0

  constructor(limit: number) {
    this.#limit = limit
  }

  isFailingAfter(succeeded: boolean): boolean {
    this.#failed = succeeded ? 0 : this.#failed + 1
    return this.#failed >= this.#limit
  }

  clear(): void {
    this.#failed = 0
  }
}

/** The share of failures at which to open, and the minimum number of calls to judge by. */
export interface FailureRate {
  readonly failureRate: number
  readonly minimumCalls: number
}

const BUCKETS = 10

/** Opens when too many of the calls of the last while have failed. Counts them in ten buckets, each a tenth of the time. */
export class RecentTime implements BreakerWindow {
  readonly #bucketMs: number
  readonly #rate: FailureRate
  readonly #succeeded = new Array<number>(BUCKETS).fill(0)
  readonly #failed = new Array<number>(BUCKETS).fill(0)
  #bucket = 0

  constructor(windowMs: number, rate: FailureRate) {
    this.#bucketMs = windowMs / BUCKETS
    this.#rate = rate
  }

  isFailingAfter(succeeded: boolean, now: number): boolean {
    const bucket = this.#advance(now)
    const counts = succeeded ? this.#succeeded : this.#failed
    counts[bucket] = (counts[bucket] ?? 0) + 1
    if (succeeded) return false
    const failed = sum(this.#failed)
    return isTooMany(failed, failed + sum(this.#succeeded), this.#rate)
  }

  clear(): void {
    this.#succeeded.fill(0)
    this.#failed.fill(0)
  }

  /** Empties the buckets that have left the window, and returns the current bucket. */
  #advance(now: number): number {
    const bucket = Math.floor(now / this.#bucketMs)
    const passed = Math.min(bucket - this.#bucket, BUCKETS)
    for (let i = 0; i < passed; i++) {
      this.#succeeded[(bucket - i) % BUCKETS] = 0
      this.#failed[(bucket - i) % BUCKETS] = 0
    }
    this.#bucket = Math.max(bucket, this.#bucket)
    return this.#bucket % BUCKETS
  }
}

/** Opens when too many of the last calls have failed. */
export class RecentCalls implements BreakerWindow {
  readonly #size: number
  readonly #rate: FailureRate
  /** The last outcomes, in a ring: whether each one failed. */
  #outcomes: boolean[] = []
  #next = 0
  #failed = 0

  constructor(size: number, rate: FailureRate) {
    this.#size = size
    this.#rate = rate
  }

  isFailingAfter(succeeded: boolean): boolean {
    if (this.#outcomes[this.#next]) this.#failed--
    this.#outcomes[this.#next] = !succeeded
    this.#next = (this.#next + 1) % this.#size
    if (succeeded) return false
    this.#failed++
    return isTooMany(this.#failed, this.#outcomes.length, this.#rate)
  }

  clear(): void {
    this.#outcomes = []
    this.#next = 0
    this.#failed = 0
  }
}

function isTooMany(failed: number, calls: number, { failureRate, minimumCalls }: FailureRate): boolean {
  return calls >= minimumCalls && failed / calls >= failureRate
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
