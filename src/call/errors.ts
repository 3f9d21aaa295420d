import {
  type Circumstances,
  type Decision,
  type GiveUpReason,
  type History,
  type Policy,
  RedriveError,
  type Verdict,
} from '../policy/index.js'

/**
 * A failed attempt, with all that its decision was made from: `decide(policy, history, verdict, circumstances)` gives the
 * same one again. Times in these are on the clock's monotonic scale.
 */
export interface AttemptRecord {
  readonly attempt: number
  /** When it failed, in milliseconds since the epoch. */
  readonly failedAt: number
  readonly failure: unknown
  readonly verdict: Verdict
  /** What was on record before it. */
  readonly history: History
  readonly circumstances: Circumstances
  readonly decision: Decision
}

/** A call was given up. `attempts` has every failed attempt; the last failure is the `cause`. */
export class RetryExhaustedError extends RedriveError {
  static {
    RetryExhaustedError.prototype.name = 'RetryExhaustedError'
  }

  constructor(
    name: string,
    readonly reason: GiveUpReason,
    readonly policy: Policy,
    readonly attempts: readonly AttemptRecord[],
  ) {
    const last = attempts.at(-1)
    // A deferral is on record too, but is not an attempt.
    const made = last?.attempt ?? 0
    const times = made === 1 ? '1 attempt' : `${made} attempts`
    const lastly = last === undefined ? '' : ` Last failure: ${brief(last.failure)} [${last.verdict.code}]`
    super('retry_exhausted', `Gave up on '${name}' after ${times} (${reason}).${lastly}`, { cause: last?.failure })
  }
}

/** The whole failure is the cause; the message needs only the start of what it says. */
function brief(failure: unknown): string {
  try {
    return String(failure).slice(0, 300)
  } catch {
    return 'a failure that cannot be described'
  }
}
