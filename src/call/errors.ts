import { type Decision, type GiveUpReason, RateLimitedError, RedriveError, type Verdict } from '../policy/index.js'
import { failureText } from '../telemetry/index.js'

/** A failed attempt, with all that its decision was made from. */
export interface AttemptRecord {
  readonly attempt: number
  /** When it failed, in milliseconds since the epoch. */
  readonly failedAt: number
  readonly failure: unknown
  readonly verdict: Verdict
  /** The number in [0, 1) that placed the delay within its jitter. */
  readonly random: number
  readonly decision: Decision
}

/** A call was given up. `attempts` has every failed attempt; the last failure is the `cause`. */
export class RetryExhaustedError extends RedriveError {
  static {
    RetryExhaustedError.prototype.name = 'RetryExhaustedError'
  }
  readonly reason: GiveUpReason
  readonly attempts: readonly AttemptRecord[]

  constructor(name: string, reason: GiveUpReason, attempts: readonly AttemptRecord[]) {
    const last = attempts.at(-1)
    const times = attempts.length === 1 ? '1 attempt' : `${attempts.length} attempts`
    const lastly = last === undefined ? '' : ` Last failure: ${failureText(last.failure)} [${last.verdict.code}]`
    super('retry_exhausted', `Gave up on '${name}' after ${times} (${reason}).${lastly}`, { cause: last?.failure })
    this.reason = reason
    this.attempts = attempts
  }
}

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

/** An option that cannot be: `option` says which. */
export class OptionError extends RedriveError {
  static {
    OptionError.prototype.name = 'OptionError'
  }
  readonly option: string

  constructor(option: string, problem: string) {
    super('invalid_option', problem)
    this.option = option
  }
}
