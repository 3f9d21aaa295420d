import type { RetryRecord } from '../../contract/budget-store.js'
import { BUCKET_MS } from './attempt-counts.js'
import type { RetrySettings } from './check-budget.js'

/**
 * The rules of a retry budget: how many retries may become ready now, and when the next ones may. Pure, and used by memory
 * and SQLite; PostgreSQL counts in rows and repeats `retriesLeft` in SQL, where claims of many machines meet.
 */

/** Held retries are counted up to here. */
export const MAX_HELD_SEEN = 10_000

/** First attempts that have ended, and retries that were let through, in one step of the window. JSON. */
export interface RetryBucket {
  /** The beginning of the step. */
  readonly at: number
  readonly first: number
  readonly retried: number
}

/** The figures of a window. */
export interface RetryFigures {
  readonly first: number
  readonly retried: number
  /** Retries that were let through in the present step. */
  readonly lately: number
}

/** How many retries may be let through. The floor comes evenly, step by step. */
export function retriesLeft(budget: RetrySettings, { first, retried, lately }: RetryFigures): number {
  const { share, windowMs, floor } = budget
  const earned = share * first - retried
  const always = Math.min((floor * windowMs) / 1000 - retried, Math.max(1, (floor * BUCKET_MS) / 1000) - lately)
  // Shares such as 0.1 are not exact in binary.
  return Math.max(0, Math.floor(Math.max(earned, always) + 1e-9))
}

/**
 * The figures of the window that ends now. A step that is only partly within it counts for retries and not for first
 * attempts, so that the bound holds for every window, wherever its steps begin.
 */
export function retryFigures(buckets: readonly RetryBucket[], windowMs: number, now: number): RetryFigures {
  const step = stepOf(now)
  let [first, retried, lately] = [0, 0, 0]
  for (const bucket of buckets) {
    // A step that lies ahead was counted before the clock was set back.
    if (bucket.at > now) continue
    if (bucket.at > now - windowMs) first += bucket.first
    if (bucket.at > now - windowMs - BUCKET_MS) retried += bucket.retried
    if (bucket.at === step) lately += bucket.retried
  }
  return { first, retried, lately }
}

/** The buckets after first attempts have ended, or retries were let through. Those that no window has any more are dropped. */
export function withRetries(
  buckets: readonly RetryBucket[],
  { first = 0, retried = 0 }: { readonly first?: number; readonly retried?: number },
  windowMs: number,
  now: number,
): readonly RetryBucket[] {
  if (first === 0 && retried === 0) return buckets
  const at = stepOf(now)
  const kept = buckets.filter(bucket => bucket.at > now - windowMs - BUCKET_MS && bucket.at <= now)
  const last = kept.at(-1)?.at === at ? kept.pop() : undefined
  return [...kept, { at, first: (last?.first ?? 0) + first, retried: (last?.retried ?? 0) + retried }]
}

/** When the next retries may be let through, if nothing is counted until then; `undefined`: now. */
function nextRetryAt(budget: RetrySettings, buckets: readonly RetryBucket[], now: number): number | undefined {
  if (retriesLeft(budget, retryFigures(buckets, budget.windowMs, now)) > 0) return undefined
  // Figures change when a step begins, and when one leaves the window.
  const moments = buckets.flatMap(({ at }) => [at + budget.windowMs, at + budget.windowMs + BUCKET_MS])
  const ahead = [nextStep(now), ...moments].filter(at => at > now).sort((a, b) => a - b)
  return ahead.find(at => retriesLeft(budget, retryFigures(buckets, budget.windowMs, at)) > 0) ?? nextStep(now)
}

/** The retries under a budget, as they are listed. `held` is the number of those that are due. */
export function retryRecord(
  budget: RetrySettings,
  buckets: readonly RetryBucket[],
  held: number,
  now: number,
): RetryRecord {
  const { first, retried } = retryFigures(buckets, budget.windowMs, now)
  return { ...budget, first, retried, held, nextAt: nextRetryAt(budget, buckets, now) }
}

/** The beginning of the next step: held retries are worth asking for again then, at the latest. */
export function nextStep(now: number): number {
  return stepOf(now) + BUCKET_MS
}

function stepOf(now: number): number {
  return now - (now % BUCKET_MS)
}
