import { type Duration, OptionError, parseDuration, RateLimitedError } from '../policy/index.js'
import { namedInstances } from './named-instances.js'

/** Controls when a circuit breaker opens, and for how long. */
export interface CircuitBreakerOptions {
  /** The share of failed calls in the window at which the breaker opens. Default 0.5. */
  readonly failureRate?: number
  /** The minimum number of calls in the window before it can open. Default 10. */
  readonly minimumCalls?: number
  /** The length of the sliding window. Default 30 s. */
  readonly window?: Duration
  /** How long it stays open before it admits one trial call. Default 30 s. */
  readonly openFor?: Duration
}

/** `closed`: calls go through. `open`: calls are refused. `half_open`: one trial call is under way. */
export type BreakerState = 'closed' | 'open' | 'half_open'

/** Identifies the breaker's state in which an attempt was admitted, so that its outcome counts for that state only. */
export type Admission = number

const BUCKETS = 10

/**
 * Thrown when an open circuit breaker refuses a call. Outer layers treat it as a rate limit: `retryAfterMs` says when
 * the breaker will admit a call again.
 */
export class BreakerOpenError extends RateLimitedError {
  static {
    BreakerOpenError.prototype.name = 'BreakerOpenError'
  }
  readonly breaker: string

  constructor(breaker: string, retryAfterMs: number, options?: ErrorOptions) {
    super(`Circuit breaker '${breaker}' is open: not called. It lets a call through again in ${retryAfterMs} ms.`, {
      ...options,
      code: 'breaker_open',
      retryAfterMs,
    })
    this.breaker = breaker
  }
}

/**
 * Refuses calls to a service that keeps failing. Final failures (a 404, a bug) do not count, because the service did
 * answer.
 *
 * closed ──too many failures──► open ──after openFor──► half open ──trial succeeds──► closed
 *                                ▲                          │
 *                                └────── trial fails ───────┘
 */
export class CircuitBreaker {
  readonly name: string
  readonly #failureRate: number
  readonly #minimumCalls: number
  readonly #bucketMs: number
  readonly #openForMs: number
  #current: BreakerState = 'closed'
  /** Counts state changes. An outcome from an earlier era is ignored. */
  #era: Admission = 0
  #openUntil = 0
  readonly #succeeded = new Array<number>(BUCKETS).fill(0)
  readonly #failed = new Array<number>(BUCKETS).fill(0)
  #bucket = 0

  constructor(name: string, options: CircuitBreakerOptions = {}) {
    const { failureRate = 0.5, minimumCalls = 10, window = '30s', openFor = '30s' } = options
    this.name = name
    this.#failureRate = inRange('failureRate', failureRate, failureRate > 0 && failureRate <= 1, 'above 0, at most 1')
    this.#minimumCalls = inRange(
      'minimumCalls',
      minimumCalls,
      Number.isInteger(minimumCalls) && minimumCalls > 0,
      'a whole number above 0',
    )
    this.#bucketMs = time('window', window) / BUCKETS
    this.#openForMs = time('openFor', openFor)
  }

  /** The state as of the last attempt: an open breaker becomes half open with the first call after `openFor`. */
  get state(): BreakerState {
    return this.#current
  }

  /** Admits a call, or returns undefined. `now` is monotonic time of the caller's clock. */
  admit(now: number): Admission | undefined {
    if (this.#current === 'closed') return this.#era
    if (now < this.#openUntil) return undefined
    // If the trial call never reports back, another is admitted after the same time.
    this.#openUntil = now + this.#openForMs
    this.#enter('half_open')
    return this.#era
  }

  /** Creates the error for a refused call. */
  refusal(now: number, cause?: unknown): BreakerOpenError {
    return new BreakerOpenError(this.name, Math.max(0, Math.ceil(this.#openUntil - now)), { cause })
  }

  /** Records the outcome of an admitted call; `undefined` if it has none, such as an aborted call. */
  record(admission: Admission | undefined, succeeded: boolean | undefined, now: number): void {
    if (succeeded === undefined) return this.release(admission, now)
    if (admission !== this.#era) return
    if (this.#current === 'half_open') {
      if (succeeded) this.#close(now)
      else this.#open(now)
      return
    }
    const bucket = this.#advance(now)
    const counts = succeeded ? this.#succeeded : this.#failed
    counts[bucket] = (counts[bucket] ?? 0) + 1
    if (!succeeded && this.#isFailing()) this.#open(now)
  }

  /** Takes back the admission of a call without an outcome, such as an aborted one. */
  release(admission: Admission | undefined, now: number): void {
    if (admission !== this.#era || this.#current !== 'half_open') return
    this.#openUntil = now
    this.#enter('open')
  }

  #isFailing(): boolean {
    const failed = sum(this.#failed)
    const calls = failed + sum(this.#succeeded)
    return calls >= this.#minimumCalls && failed / calls >= this.#failureRate
  }

  #open(now: number): void {
    this.#openUntil = now + this.#openForMs
    this.#enter('open')
  }

  #close(now: number): void {
    this.#bucket = Math.floor(now / this.#bucketMs)
    this.#succeeded.fill(0)
    this.#failed.fill(0)
    this.#enter('closed')
  }

  #enter(state: BreakerState): void {
    this.#current = state
    this.#era++
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

/** Returns the breaker with this name. All calls that name it share it; the first may set its options. */
export const circuitBreaker = /* @__PURE__ */ namedInstances(
  'circuit breaker',
  (name: string, options?: CircuitBreakerOptions) => new CircuitBreaker(name, options),
)

function time(option: string, value: Duration): number {
  const ms = parseDuration(value)
  return inRange(option, ms ?? Number.NaN, ms !== undefined && ms > 0, `a duration such as '30s', longer than 0`)
}

function inRange(option: string, value: number, isValid: boolean, expected: string): number {
  if (!isValid) throw new OptionError(option, `Circuit breaker: '${option}' must be ${expected}, got ${value}.`)
  return value
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0)
}
