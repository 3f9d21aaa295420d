import type { Lane, LaneLimits, LaneSelection, SharedLimits } from './lane.js'
import type { By } from './ledger.js'

/** A pause, or its end, for all lanes that match. It holds for lanes that do not exist yet, too. */
export interface PauseRule extends LaneSelection {
  /** Whether these lanes are paused. */
  readonly isPaused: boolean
  /** When it was set, on the store's clock; `undefined` for a rule of an earlier release. */
  readonly at: number | undefined
  /** The person who set it, and why; `undefined` if nobody said. */
  readonly by: By | undefined
}

/** Limits for all lanes that match. They hold for lanes that do not exist yet, too. */
export interface LimitRule extends LaneSelection {
  /** The limits of each lane by itself, or of all of them together. */
  readonly limits: LaneLimits | SharedLimits
}

/** The rules for lanes, oldest first: the last one that matches a lane holds. */
export interface LaneRules {
  /** Pauses, and exceptions from them. */
  readonly pauses: readonly PauseRule[]
  /** Limits. Those of a single lane are not here, but in its record. */
  readonly limits: readonly LimitRule[]
}

/** Lists the rules that were set for lanes. */
export interface LaneRuleReader {
  /** The rules that select any lane with these fields. */
  laneRules(filter?: Partial<Lane>): Promise<LaneRules>
}

/** A row of the table `pause_rule`. */
export interface PauseRuleRow extends RuleRow {
  readonly paused: number | boolean
  readonly at: number | null
  readonly who: string | null
  readonly why: string | null
}

interface RuleRow {
  readonly kind: string
  readonly category: string | null
  readonly key: string | null
}

/** Converts a row of the table `pause_rule`. */
export function pauseRule({ paused, at, who, why, ...row }: PauseRuleRow): PauseRule {
  return { ...selectionOf(row), isPaused: Boolean(paused), at: at ?? undefined, by: byOf(who, why) }
}

/** The lanes that a rule selects. A field that selects all is absent. */
export function selectionOf({ kind, category, key }: RuleRow): LaneSelection {
  return { kind, ...(category !== null && { category }), ...(key !== null && { key }) }
}

function byOf(who: string | null, why: string | null): By | undefined {
  return who === null ? undefined : { who, ...(why !== null && { why }) }
}
