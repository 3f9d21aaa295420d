import type { LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { Steps, Tx } from '../port/steps.js'
import { isOneLane } from '../rules/lane-limits.js'
import { limitRecord, pauseRecord } from '../rules/operator-record.js'
import { type Declaration, isShared, NEW_STATE, relimited } from '../rules/shared-limit.js'

/** Pauses or resumes lanes, on record if somebody asked for it. */
export function* pauseLanes(
  tx: Tx,
  lanes: LaneSelection,
  { isPaused, who, why }: { readonly isPaused: boolean } & Partial<By>,
): Steps<void> {
  const now = yield* tx.clock.now()
  const by = who === undefined ? undefined : { who, ...(why !== undefined && { why }) }
  yield* tx.lanes.pause(lanes, isPaused, now, by)
  if (by !== undefined) yield* tx.audit.append(pauseRecord(lanes, isPaused, by, now), now)
}

/**
 * Limits lanes, on record if somebody asked for it. Returns whether that is news: code declares its limits whenever it
 * starts, and repeats nothing that an operator has changed since.
 */
export function* limitLanes(
  tx: Tx,
  lanes: LaneSelection,
  limits: LaneLimits | SharedLimits,
  { declaration, by }: { readonly declaration: Declaration | undefined; readonly by: By | undefined },
): Steps<boolean> {
  if (declaration !== undefined && !(yield* tx.lanes.declare(declaration))) return false
  const now = yield* tx.clock.now()
  if (!isShared(limits)) yield* limitEach(tx, lanes, limits, now)
  else if (limits.isPerQuota) yield* limitQuotas(tx, lanes.kind, limits)
  else yield* share(tx, lanes, limits)
  if (by !== undefined) yield* tx.audit.append(limitRecord(lanes, limits, by, now), now)
  return true
}

function* limitEach(tx: Tx, lanes: LaneSelection, limits: LaneLimits, now: number): Steps<void> {
  // A single lane is made if it does not exist, so it needs no rule.
  if (isOneLane(lanes)) yield* tx.lanes.make([lanes])
  else yield* tx.lanes.addLimitRule(lanes, limits)
  yield* tx.lanes.setLimits(lanes, limits, now)
}

function* share(tx: Tx, lanes: LaneSelection, limits: SharedLimits): Steps<void> {
  const known = yield* tx.lanes.lockShared(lanes)
  const state = known === undefined ? NEW_STATE : relimited(known.state, known.limits, limits)
  yield* tx.lanes.saveShared(lanes, { limits, state })
}

function* limitQuotas(tx: Tx, kind: string, limits: SharedLimits): Steps<void> {
  const known = yield* tx.lanes.lockQuotas(kind)
  const states = known.map(({ quota, limits: before, state }) => ({ quota, state: relimited(state, before, limits) }))
  yield* tx.lanes.saveQuotas(kind, limits, states)
}
