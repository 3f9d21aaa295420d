import type { Lane, LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { Declaration, SharedState } from '../rules/shared-limit.js'

/** The lanes that share a limit. */
export type SharedSelection = Pick<LaneSelection, 'kind' | 'category'>

/** A limit that lanes share, as it is kept. */
export interface KeptSharedLimit {
  readonly limits: SharedLimits
  readonly state: SharedState
}

/** The limit of a quota, as it is kept. */
export interface KeptQuota extends KeptSharedLimit {
  readonly quota: string
}

/** The primitives of lanes. Rules hold for lanes that are made later, too. */
export interface LanePort {
  /** Makes those of these lanes that do not exist. */
  make(lanes: readonly Lane[]): void
  /** Pauses or resumes the lanes that match. What stops a run stays, unless its key is given: that is for the run to end. */
  pause(lanes: LaneSelection, isPaused: boolean, now: number, by?: By): void
  /** Takes back the pause of the lanes of a run. They are as paused as the other rules say. */
  endPause(lanes: Pick<Lane, 'kind' | 'key'>): void
  /** Limits each of the lanes that match and are yet to be made, as long as no later rule does. Replaces the rules that it covers. */
  addLimitRule(lanes: LaneSelection, limits: LaneLimits): void
  /** Limits each of the lanes that match. A lane with the same limits stays as it is. */
  setLimits(lanes: LaneSelection, limits: LaneLimits, now: number): void
  /** The limit that exactly these lanes share. Nobody else changes it until the transaction ends. */
  lockShared(lanes: SharedSelection): KeptSharedLimit | undefined
  /** Lets the lanes that match share a limit. Replaces those that it covers. */
  saveShared(lanes: SharedSelection, limit: KeptSharedLimit): void
  /** The limits of the quotas of a kind. Nobody else changes them, or adds one, until the transaction ends. */
  lockQuotas(kind: string): readonly KeptQuota[]
  /** Limits each quota of a kind, also those that come later, and changes the state of those that are there. */
  saveQuotas(kind: string, limits: SharedLimits, states: readonly Pick<KeptQuota, 'quota' | 'state'>[]): void
  /** Notes what code declares. Returns false if it is the same as the last time. */
  declare(declaration: Declaration): boolean
}
