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
 * A failed attempt, with all that its decision was made from: `decide(policy, history, verdict, record)` gives the same
 * one again. `now` and the times of the history are on the clock's monotonic scale.
 */
export interface AttemptRecord extends Circumstances {
  readonly attempt: number
  /** When it failed, in milliseconds since the epoch. */
  readonly failedAt: number
  readonly failure: unknown
  readonly verdict: Verdict
  /** What was on record before it. */
  readonly history: History
  readonly decision: Decision
}

/** A call was given up. `attempts` has its failed attempts, the last hundred at most; the last failure is the `cause`. */
export class RetryExhaustedError extends RedriveError {
  static {
    RetryExhaustedError.prototype.name = 'RetryExhaustedError'
  }

  constructor(
    /** The name of the call. */
    readonly operation: string,
    /** The category of the call, if it has one. */
    readonly category: string | undefined,
    readonly reason: GiveUpReason,
    readonly policy: Policy,
    readonly attempts: readonly AttemptRecord[],
  ) {
    const last = attempts.at(-1)
    const lastly = last ? ` at attempt ${last.attempt}: ${brief(last.failure)}` : ''
    super('retry_exhausted', `Gave up on '${operation}' (${reason})${lastly}`, { cause: last?.failure })
  }
}

/** The whole failure is the cause; the message needs only the start of what it says. */
function brief(failure: unknown): string {
  try {
    return String(failure).slice(0, 300)
  } catch {
    return typeof failure
  }
}
