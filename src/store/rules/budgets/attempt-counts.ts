import type { Outcome } from '../../contract/claim.js'
import type { AttemptEntry } from '../../contract/ledger.js'
import { ownValue } from '../own-value.js'
import { failureOf, NO_PROBES, type Probes, type Recent } from './gate.js'

/** The meaning of a task's end for a budget. `none`: it has none. */
export type Answer = 'ok' | 'failed' | 'none'

/** Attempts are counted in steps of this size. PostgreSQL has it too. */
export const BUCKET_MS = 10_000

interface Bucket {
  /** The beginning of the step. */
  readonly at: number
  readonly attempts: number
  /** Failures by `failureOf`. */
  readonly failed: Readonly<Record<string, number>>
}

/** A step tells this many failures apart. Codes of anybody's may differ with every failure, and a settlement writes them all. */
const MAX_FAILURES = 50
/** All further failures of a step. */
const OTHER_FAILURE = failureOf('other', undefined)

/** The attempts that a budget has counted, oldest first, and how its probes have ended. JSON. */
export interface AttemptCounts {
  readonly buckets: readonly Bucket[]
  readonly probes: Probes
}

/** Tasks that have ended their run in the same way. */
export interface Ended {
  readonly answer: Answer
  /** The failure, as `failureOf` has it. */
  readonly failure: string
  /** Whether an open gate had let them through, in its present round. */
  readonly isProbe: boolean
  readonly count: number
  /** How many of them were first attempts, which earn retries of this budget. */
  readonly first: number
}

export const NO_COUNTS: AttemptCounts = { buckets: [], probes: NO_PROBES }

/** Says what an outcome means for a budget. Without an attempt, as with the decision on a lost one, it tells nothing. */
export function answerOf({ type }: Outcome, attempt: AttemptEntry | undefined): Answer {
  if (attempt === undefined) return 'none'
  if (attempt.verdict !== undefined) return attempt.verdict.class === 'retryable' ? 'failed' : 'none'
  return type === 'succeeded' || type === 'skipped' || type === 'advanced' ? 'ok' : 'none'
}

/** Whether an attempt is a first one that has come to an end. Asked to wait, it comes again with the same number. */
export function isFirstAttempt({ type }: Outcome, attempt: AttemptEntry | undefined): boolean {
  return attempt?.attempt === 1 && type !== 'deferred' && type !== 'later' && type !== 'lost' && type !== 'released'
}

/** The counts after tasks have ended. Without an open gate, an end that tells nothing changes nothing. */
export function counted(
  counts: AttemptCounts,
  ended: Omit<Ended, 'first'>,
  windowMs: number,
  now: number,
): AttemptCounts {
  const { answer, failure, isProbe, count } = ended
  const probes = isProbe ? { ...counts.probes, [answer]: counts.probes[answer] + count } : counts.probes
  if (answer === 'none') return probes === counts.probes ? counts : { ...counts, probes }
  const at = now - (now % BUCKET_MS)
  const kept = counts.buckets.filter(bucket => isRecent(bucket, windowMs, now))
  const last = kept.at(-1)?.at === at ? kept.pop() : undefined
  const { attempts = 0, failed = {} } = last ?? {}
  const more = answer === 'failed' ? withFailures(failed, failure, count) : failed
  return { buckets: [...kept, { at, attempts: attempts + count, failed: more }], probes }
}

function withFailures(failed: Bucket['failed'], failure: string, count: number): Bucket['failed'] {
  const isKnown = ownValue(failed, failure) !== undefined || Object.keys(failed).length < MAX_FAILURES
  const name = isKnown ? failure : OTHER_FAILURE
  return { ...failed, [name]: (ownValue(failed, name) ?? 0) + count }
}

/** The attempts within a window. */
export function recentOf({ buckets }: AttemptCounts, windowMs: number, now: number): Recent {
  const failures = new Map<string, number>()
  let attempts = 0
  let failed = 0
  for (const bucket of buckets) {
    if (!isRecent(bucket, windowMs, now)) continue
    attempts += bucket.attempts
    for (const [failure, count] of Object.entries(bucket.failed)) {
      failed += count
      failures.set(failure, (failures.get(failure) ?? 0) + count)
    }
  }
  // A mixture is named only if it is all there is.
  if (failures.size > 1) failures.delete(OTHER_FAILURE)
  const [failure = ''] = [...failures].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))[0] ?? []
  return { attempts, failed, failure }
}

function isRecent({ at }: Bucket, windowMs: number, now: number): boolean {
  // A step that lies ahead was counted before the clock was set back.
  return at > now - windowMs && at <= now
}
