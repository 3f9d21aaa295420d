import { type Duration, OptionError, parseDuration, RateLimitedError } from '../policy/index.js'
import { namedInstances } from './named-instances.js'

/** When a circuit breaker opens, and for how long. */
export interface CircuitBreakerOptions {
  /** Opens when at least this share of the calls in the window failed. Default 0.5. */
  readonly failureRate?: number
  /** ...but never on fewer calls than this. Default 10. */
  readonly minimumCalls?: number
  /** How far back it looks. Default 30 s. */
  readonly window?: Duration
  /** How long it stays open before it lets one call through to see. Default 30 s. */
  readonly openFor?: Duration
}

/** A breaker is `closed` while calls go through, `open` while none does, `half_open` while one is out to see. */
export type BreakerState = 'closed' | 'open' | 'half_open'

/** What an attempt was let through with; it says which state of the breaker its outcome speaks of. */
export type Admission = number

const BUCKETS = 10

/**
 * A circuit breaker is open, so the call was not made. To an outer layer it is a rate limit that we set ourselves:
 * `retryAfterMs` says when the breaker will let a call through again.
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
 * Keeps calls away from what has been failing. Final failures (a 404, a bug) do not count: the other side did answer.
 *
 * closed ──too many failed──► open ──after openFor──► half open ──the one call succeeded──► closed
 *                              ▲                          │
 *                              └──────── it failed ───────┘
 */
export class CircuitBreaker {
  readonly name: string
  private readonly failureRate: number
  private readonly minimumCalls: number
  private readonly bucketMs: number
  private readonly openForMs: number
  private current: BreakerState = 'closed'
  /** Counts the changes of state: an outcome that belongs to an earlier one says nothing of now. */
  private era: Admission = 0
  private openUntil = 0
  private succeeded = new Array<number>(BUCKETS).fill(0)
  private failed = new Array<number>(BUCKETS).fill(0)
  private bucket = 0

  constructor(name: string, options: CircuitBreakerOptions = {}) {
    const { failureRate = 0.5, minimumCalls = 10, window = '30s', openFor = '30s' } = options
    this.name = name
    this.failureRate = inRange('failureRate', failureRate, failureRate > 0 && failureRate <= 1, 'above 0, at most 1')
    this.minimumCalls = inRange(
      'minimumCalls',
      minimumCalls,
      Number.isInteger(minimumCalls) && minimumCalls > 0,
      'a whole number above 0',
    )
    this.bucketMs = time('window', window) / BUCKETS
    this.openForMs = time('openFor', openFor)
  }

  /** As of the last attempt: an open one is half open once somebody comes after `openFor`. */
  get state(): BreakerState {
    return this.current
  }

  /** Lets a call through, or not. Times are on the monotonic scale of the callers' clock. */
  admit(now: number): Admission | undefined {
    if (this.current === 'closed') return this.era
    if (now < this.openUntil) return undefined
    // If nothing is ever heard of that one call, another follows after the same time.
    this.openUntil = now + this.openForMs
    this.enter('half_open')
    return this.era
  }

  /** What a call that was not let through fails with. */
  refusal(now: number, cause?: unknown): BreakerOpenError {
    return new BreakerOpenError(this.name, Math.max(0, Math.ceil(this.openUntil - now)), { cause })
  }

  /** Takes the outcome of a call that it let through; `undefined` where there is none, as of one that was aborted. */
  record(admission: Admission | undefined, succeeded: boolean | undefined, now: number): void {
    if (succeeded === undefined) return this.release(admission, now)
    if (admission !== this.era) return
    if (this.current === 'half_open') {
      if (succeeded) this.close(now)
      else this.open(now)
      return
    }
    const bucket = this.advance(now)
    const counts = succeeded ? this.succeeded : this.failed
    counts[bucket] = (counts[bucket] ?? 0) + 1
    if (!succeeded && this.isFailing()) this.open(now)
  }

  /** Takes back a call that it let through and that has no outcome, such as one that was aborted. */
  release(admission: Admission | undefined, now: number): void {
    if (admission !== this.era || this.current !== 'half_open') return
    this.openUntil = now
    this.enter('open')
  }

  private isFailing(): boolean {
    const failed = sum(this.failed)
    const calls = failed + sum(this.succeeded)
    return calls >= this.minimumCalls && failed / calls >= this.failureRate
  }

  private open(now: number): void {
    this.openUntil = now + this.openForMs
    this.enter('open')
  }

  private close(now: number): void {
    this.bucket = Math.floor(now / this.bucketMs)
    this.succeeded.fill(0)
    this.failed.fill(0)
    this.enter('closed')
  }

  private enter(state: BreakerState): void {
    this.current = state
    this.era++
  }

  /** The bucket of this moment, after the buckets that the window has left behind have been emptied. */
  private advance(now: number): number {
    const bucket = Math.floor(now / this.bucketMs)
    const passed = Math.min(bucket - this.bucket, BUCKETS)
    for (let i = 0; i < passed; i++) {
      this.succeeded[(bucket - i) % BUCKETS] = 0
      this.failed[(bucket - i) % BUCKETS] = 0
    }
    this.bucket = Math.max(bucket, this.bucket)
    return this.bucket % BUCKETS
  }
}

/** The breaker of this name; every call that names it shares it. The first call may set its options. */
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
