import { type Duration, parseDuration, type Verdict } from '../policy/index.js'
import { problemOf, quoted } from '../policy/internal.js'
import { redact } from '../telemetry/index.js'

/** Says how long to wait after a failed attempt; `undefined` leaves it to the policy. @inline */
export type RetryDelay = (
  failure: unknown,
  about: {
    /** The number of the attempt that failed, from 1. */
    readonly attempt: number
    /** What the classifier says of the failure. */
    readonly verdict: Verdict
  },
) => Duration | undefined

/**
 * The milliseconds that a kind asks for after a failure. Not asked after a final failure, or where a rate limit says how long
 * to wait. Never throws: a function that throws, or answers with anything but a duration, is a bug, and the policy decides.
 */
export function delayOf(kind: string, retryDelay: RetryDelay) {
  let isTold = false
  const warn = (problem: string) => {
    if (isTold) return
    isTold = true
    process.emitWarning(`'retryDelay' of the task '${kind}' ${problem}. The backoff of its policy holds instead.`, {
      type: 'RedriveWarning',
      code: 'retry_delay_invalid',
    })
  }
  return (failure: unknown, verdict: Verdict, attempt: number): number | undefined => {
    const isDecided = verdict.class === 'rate_limited' && verdict.retryAfterMs !== undefined
    if (verdict.class === 'final' || isDecided) return undefined
    try {
      const answer: unknown = retryDelay(failure, { attempt, verdict })
      if (answer === undefined) return undefined
      const delayMs = parseDuration(answer)
      if (delayMs === undefined) warn(`returned ${quoted(answer)}, which is no duration such as 250 or '5m'`)
      // Of a function that is async by mistake: its rejection must not end the process.
      if (answer instanceof Promise) answer.catch(() => {})
      return delayMs
    } catch (error) {
      warn(`has thrown: ${redact(problemOf(error))}`)
      return undefined
    }
  }
}
