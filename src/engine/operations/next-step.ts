import { isOutside, type OperationRecord, type OperationStatus } from '../../store/internal.js'

/**
 * Decides what a driver does next about an operation. Pure: it knows the record, with the tally of its members, and a few facts.
 *
 * A canary stops the operation as soon as more of its members have failed than may. Afterwards at most a window of members is
 * unanswered, so that redriven work, which runs before all newer work of its lane, never starves that. The window doubles
 * while the answers are good, and halves from half of the threshold on.
 */

/** The facts that a step depends on. */
export interface StepFacts {
  /** The store's clock. */
  readonly now: number
  /** Whether it waits for a fix: not all live workers of its kind have it. */
  readonly isWaiting: boolean
  /** Whether any worker is alive. Without one nobody answers, so nothing is held back. */
  readonly hasWorkers: boolean
  /** How many runs of a backfill may be started now, where they are bounded. */
  readonly room?: number | undefined
  /** The members of the canary by their answers; `replaced` have none, and never count. */
  readonly canary: { readonly passed: number; readonly failed: number; readonly pending: number }
}

/** The next step. */
export type NextStep =
  /** Nothing to do for so long. */
  | { readonly type: 'wait'; readonly ms: number }
  /** Stop, for a reason that a person reads. */
  | { readonly type: 'stop'; readonly reason: string }
  /** Go on with another status, or with another window and the answers so far judged. */
  | { readonly type: 'enter'; readonly status: OperationStatus; readonly window?: number }
  /** Move at most `limit` more members. */
  | { readonly type: 'move'; readonly limit: number; readonly isCanary: boolean }

/** The size of a transaction. */
const BATCH = 2000
/** The same if payloads are patched: all of them are in memory then. */
const PATCH_BATCH = 200
/** Under a rate the work comes evenly. */
const BATCHES_PER_SECOND = 10
/** How soon to look for new answers. */
const POLL_MS = 200
/** Added for each member of a canary that has not answered, since each look reads them all. */
const READ_MS = 2
/** The share of failures above which an operation stops, unless it says another. */
const STOP_ABOVE = { withCanary: 0.2, without: 0.5 }
/** Fewer answers say little. */
const MIN_JUDGED = 10
const MAX_WINDOW = 10_000
const ANSWER_WITHIN_MS = 600_000
/** A canary whose members give no answers takes this many times its size before it gives up. */
const MAX_REPLACED = 3

/** Members that were moved and have not answered. */
export function outstanding({ set, moved, undone, tally }: OperationRecord): number {
  if (isOutside(set)) return 0
  return Math.max(0, moved - undone - tally.passed - tally.failed - tally.unanswered)
}

/** How many members it may still move. */
export function leftOf({ settings, moved }: OperationRecord): number {
  return (settings.limit ?? Infinity) - moved
}

/** The next step of an operation. */
export function nextStep(operation: OperationRecord, facts: StepFacts): NextStep {
  switch (operation.status) {
    case 'canary':
    case 'running':
      // Failures of workers without the fix say nothing about it, so they are not judged.
      if (facts.isWaiting) return { type: 'enter', status: 'planned' }
      return operation.status === 'canary' ? canaryStep(operation, facts) : runningStep(operation, facts)
    case 'settling':
      return hasUnended(operation) ? { type: 'wait', ms: 5 * POLL_MS } : { type: 'enter', status: 'done' }
    case 'planned':
      if (facts.isWaiting) return { type: 'wait', ms: 5 * POLL_MS }
      return { type: 'enter', status: operation.settings.canary === undefined ? 'running' : 'canary' }
    case 'stopped':
    case 'done':
      return { type: 'wait', ms: 5 * POLL_MS }
  }
}

function canaryStep(operation: OperationRecord, { now, hasWorkers, canary: answered }: StepFacts): NextStep {
  const { settings, progress } = operation
  if (!hasWorkers && progress.canary.length === 0) {
    return { type: 'stop', reason: 'No worker is running, and a canary needs one.' }
  }
  const { canary = 0, stopAbove = STOP_ABOVE.withCanary, answerWithinMs = ANSWER_WITHIN_MS } = settings
  const size = Math.min(canary, settings.limit ?? Infinity)
  const { passed, failed, pending } = answered
  const answers = passed + failed
  if (failed > stopAbove * size) {
    return {
      type: 'stop',
      reason: `The first attempt failed for ${failed} of the first ${answers} members, above ${percent(stopAbove)}.`,
    }
  }
  if (answers >= size) return { type: 'enter', status: 'running', window: size }
  const left = leftOf(operation)
  const isAll = progress.isRead || left <= 0
  const missing = Math.min(size - answers - pending, left)
  const hasMore = missing > 0 && !isAll && progress.canary.length < MAX_REPLACED * size
  if (hasMore) return { type: 'move', limit: missing, isCanary: true }
  if (pending === 0) {
    // The set, or its limit, has fewer members than the canary, and they are good.
    const isGood = isAll && (answers > 0 || progress.canary.length === 0)
    if (isGood) return { type: 'enter', status: 'running', window: size }
    return { type: 'stop', reason: `None of ${progress.canary.length} members made a counted attempt.` }
  }
  if (now - (progress.canarySince ?? now) >= answerWithinMs) {
    return { type: 'stop', reason: `No answer from ${pending} of ${size} members in time.` }
  }
  return { type: 'wait', ms: Math.max(POLL_MS, pending * READ_MS) }
}

function runningStep(operation: OperationRecord, facts: StepFacts): NextStep {
  const { act, progress } = operation
  const isAnswered = act === 'redrive'
  const left = leftOf(operation)
  const judgement = isAnswered ? judge(operation) : undefined
  if (judgement?.type === 'stop') return judgement
  if (progress.isRead || left <= 0)
    return { type: 'enter', status: isAnswered && hasUnended(operation) ? 'settling' : 'done' }
  if (judgement !== undefined) return judgement
  if (facts.room !== undefined && facts.room <= 0 && !facts.hasWorkers)
    return { type: 'stop', reason: 'No worker is running, and the next runs start when others have ended.' }
  const room = facts.room ?? (isAnswered && facts.hasWorkers ? progress.window - outstanding(operation) : BATCH)
  return roomStep(operation, Math.min(room, left), facts.now)
}

/** Stops when too many of the latest answers are failures, and adapts the window once there are enough of them. */
function judge({ settings, progress, tally }: OperationRecord): NextStep | undefined {
  const { stopAbove = settings.canary === undefined ? STOP_ABOVE.without : STOP_ABOVE.withCanary } = settings
  const { judged, window } = progress
  const failed = tally.failed - judged.failed
  const answers = tally.passed - judged.passed + failed
  if (failed > stopAbove * Math.max(answers, MIN_JUDGED)) {
    return {
      type: 'stop',
      reason: `The first attempt failed for ${failed} of the last ${answers} members, above ${percent(stopAbove)}.`,
    }
  }
  if (answers < Math.max(MIN_JUDGED, window)) return undefined
  const isBad = failed > (stopAbove / 2) * answers
  const smaller = Math.max(settings.canary ?? MIN_JUDGED, Math.floor(window / 2))
  return { type: 'enter', status: 'running', window: isBad ? smaller : Math.min(window * 2, MAX_WINDOW) }
}

/** Moves as many members as there is room for and the rate allows. */
function roomStep(
  { settings: { perSecond, patch }, progress: { lastMove } }: OperationRecord,
  room: number,
  now: number,
): NextStep {
  const batch = patch === undefined ? BATCH : PATCH_BATCH
  const { limit, earlyMs } = perSecond === undefined ? { limit: batch, earlyMs: 0 } : paced(perSecond, lastMove, now)
  if (earlyMs > 0) return { type: 'wait', ms: Math.min(earlyMs, 1000) }
  if (room <= 0) return { type: 'wait', ms: POLL_MS }
  return { type: 'move', limit: Math.min(room, limit, batch), isCanary: false }
}

/**
 * How many members a rate lets through, and how long before it is time for them. A step that comes late, since a busy store
 * answers slowly, moves as many more as it is late for, up to those of a second: or else the rate would never be reached.
 */
function paced(
  perSecond: number,
  lastMove: OperationRecord['progress']['lastMove'],
  now: number,
): { readonly limit: number; readonly earlyMs: number } {
  const evenly = Math.max(1, Math.floor(perSecond / BATCHES_PER_SECOND))
  // A move that lies ahead was made before the clock was set back.
  if (lastMove === undefined || lastMove.at > now) return { limit: evenly, earlyMs: 0 }
  const passedMs = Math.min(now - lastMove.at, 1000)
  const earlyMs = lastMove.at + (evenly * 1000) / perSecond - now
  return { limit: Math.max(evenly, Math.floor((passedMs * perSecond) / 1000)), earlyMs }
}

/** Whether a member that was moved has not ended. */
/** Whether a redrive has moved members that have neither ended nor been put back. */
export function hasUnended({ moved, undone, tally }: OperationRecord): boolean {
  return moved - undone > tally.succeeded + tally.skipped + tally.dead + tally.cancelled
}

function percent(share: number): string {
  return `${Math.round(share * 1000) / 10} %`
}
