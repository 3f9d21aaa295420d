import type { RetryRecord } from '../../contract/budget-store.js'
import { BUCKET_MS } from './attempt-counts.js'
import type { RetrySettings } from './check-budget.js'

/**
 * The rules of a retry budget: how many retries may become ready now, and when the next ones may. Pure, and used by memory
 * and SQLite. PostgreSQL counts in rows, where claims of many machines meet, and repeats `retriesLeft`, `floorAfter` and
 * `nextAsk` in SQL (functions/retry-budgets.sql); a test compares the two.
 *
 * A retry may pass if, with it, the retries of the last window are no more than a share of the first attempts in it, or if
 * the floor lets it pass.
 *
 * **The floor** comes evenly. In any window it lets its _quota_ pass: as many whole retries as it is worth. It saves up
 * `burst` of them at most, so that a weak service never sees many at once, and the others of the quota come one by one, each
 * `eachMs` after the one before. So what is saved up, and what comes in during a window, are the quota together.
 *
 * What it has is kept as a time, `floorAt`: when it had nothing. It has one retry `eachMs` later, and so on. A retry that
 * passes moves that time on, also if the share has let it pass, since the bound is the larger of the two and not their sum. A
 * debt ends after a window, which has none of these retries in it any more.
 */

/** Held retries are counted up to here. */
export const MAX_HELD_SEEN = 10_000

/** A window shorter than this is counted in steps of one second, so that it does not lose much of what lies at its ends. */
const LONG_WINDOW_MS = 120_000
const FINE_BUCKET_MS = 1000

/** The floor saves up this share of a window's quota at most. Its pace is that much slower. */
const SAVED_SHARE = 0.01

/** Shares such as 0.1 are not exact in binary, nor are fractions of a millisecond in a time. */
const HAIR = 1e-9
const HAIR_MS = 1e-3

/** First attempts that have ended, and retries that were let through, in one step of the window. JSON. */
export interface RetryBucket {
  /** The beginning of the step. */
  readonly at: number
  readonly first: number
  readonly retried: number
  /** When the floor had nothing, as its last retries have left it. */
  readonly floorAt?: number
}

/** The figures of a window. */
export interface RetryFigures {
  readonly first: number
  readonly retried: number
  readonly floorAt: number
}

/** How many retries may be let through. */
export function retriesLeft(budget: RetrySettings, { first, retried, floorAt }: RetryFigures, now: number): number {
  const { burst, eachMs } = floorOf(budget)
  const earned = budget.share * first - retried + HAIR
  const saved = Math.min(burst, (now - floorAt + HAIR_MS) / eachMs)
  return Math.max(0, Math.floor(Math.max(earned, saved)))
}

/** When the floor had nothing, after it or the share has let retries pass. */
export function floorAfter(budget: RetrySettings, floorAt: number, passed: number, now: number): number {
  const { burst, eachMs } = floorOf(budget)
  return Math.min(Math.max(floorAt, now - burst * eachMs) + passed * eachMs, now + budget.windowMs)
}

/**
 * When a claim should ask for held retries again. The floor has half of what it saves up by then, so that a claim that is a
 * little late loses nothing; and first attempts of other processes may have earned some.
 */
export function nextAsk(budget: RetrySettings, floorAt: number, now: number): number {
  const { burst, eachMs } = floorOf(budget)
  const waitMs = Math.ceil(burst / 2) * eachMs
  const at = Math.ceil(floorAt + waitMs - HAIR_MS)
  return Math.min(at > now ? at : Math.ceil(now + waitMs), bucketAt(now, BUCKET_MS) + BUCKET_MS)
}

function floorOf({ floor, windowMs }: RetrySettings) {
  const quota = Math.floor((floor * windowMs) / 1000 + HAIR)
  const burst = Math.min(Math.ceil(floor), 1 + Math.floor(quota * SAVED_SHARE))
  return { burst, eachMs: windowMs / (quota - burst + 1) }
}

/**
 * The figures of the window that ends now. A step that is only partly within it counts for retries and not for first
 * attempts, so that the bound holds for every window, wherever its steps begin.
 */
export function retryFigures(buckets: readonly RetryBucket[], windowMs: number, now: number): RetryFigures {
  const stepMs = bucketMs(windowMs)
  let [first, retried, floorAt] = [0, 0, 0]
  for (const bucket of buckets) {
    // A step that lies ahead was counted before the clock was set back.
    if (bucket.at > now || bucket.at <= now - windowMs - stepMs) continue
    if (bucket.at > now - windowMs) first += bucket.first
    retried += bucket.retried
    floorAt = Math.max(floorAt, bucket.floorAt ?? 0)
  }
  return { first, retried, floorAt }
}

/** The buckets after first attempts have ended, or retries were let through. Those that no window has any more are dropped. */
export function withRetries(
  buckets: readonly RetryBucket[],
  { first = 0, retried = 0, floorAt }: Partial<RetryFigures>,
  windowMs: number,
  now: number,
): readonly RetryBucket[] {
  const stepMs = bucketMs(windowMs)
  const at = bucketAt(now, stepMs)
  const kept = buckets.filter(bucket => bucket.at > now - windowMs - stepMs && bucket.at <= now)
  const last = kept.at(-1)?.at === at ? kept.pop() : undefined
  const counted = { ...last, at, first: (last?.first ?? 0) + first, retried: (last?.retried ?? 0) + retried }
  return [...kept, floorAt === undefined ? counted : { ...counted, floorAt }]
}

/** The buckets of a budget whose retries have got other settings: its floor begins anew. */
export function withFreshFloor(buckets: readonly RetryBucket[]): readonly RetryBucket[] {
  return buckets.map(({ at, first, retried }) => ({ at, first, retried }))
}

/** When the next retries may be let through, if nothing is counted until then; `undefined`: now. */
function nextRetryAt(budget: RetrySettings, buckets: readonly RetryBucket[], now: number): number | undefined {
  const { windowMs } = budget
  const leftAt = (at: number) => retriesLeft(budget, retryFigures(buckets, windowMs, at), at)
  if (leftAt(now) > 0) return undefined
  const floorOpensAt = Math.ceil(retryFigures(buckets, windowMs, now).floorAt + floorOf(budget).eachMs - HAIR_MS)
  // The share changes when a step leaves the window.
  const moments = buckets.flatMap(({ at }) => [at + windowMs, at + windowMs + bucketMs(windowMs)])
  return [...moments, floorOpensAt].sort((a, b) => a - b).find(at => at > now && leftAt(at) > 0)
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

/** The size of the steps in which a window is counted. PostgreSQL has it too. */
function bucketMs(windowMs: number): number {
  return windowMs < LONG_WINDOW_MS ? FINE_BUCKET_MS : BUCKET_MS
}

function bucketAt(now: number, stepMs: number): number {
  return now - (now % stepMs)
}
