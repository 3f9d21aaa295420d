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
 * A failed attempt, with all inputs of its decision: `decide(policy, history, verdict, record)` gives the same decision
 * again. `now` and the times of the history are on the clock's monotonic scale.
 */
export interface AttemptRecord extends Circumstances {
  /** Its number, from 1. */
  readonly attempt: number
  /** When it failed, in milliseconds since the epoch. */
  readonly failedAt: number
  /** The value that the function threw or rejected with. */
  readonly failure: unknown
  /** The classifier's verdict on the failure. */
  readonly verdict: Verdict
  /** The record before it. */
  readonly history: History
  /** The decision that followed: a retry, a deferral, or the end. */
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
    /** The stop rule that ended it. */
    readonly reason: GiveUpReason,
    /** The policy that decided. */
    readonly policy: Policy,
    /** The failed attempts, the last hundred at most. */
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
