import type { Lane, LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { Declaration } from '../rules/shared-limit.js'

/** The primitives of lanes. Rules hold for lanes that are made later, too. */
export interface LanePort {
  /** Makes those of these lanes that do not exist. */
  make(lanes: readonly Lane[]): void
  /** Pauses or resumes the lanes that match. What stops a run stays, unless its key is given: that is for the run to end. */
  pause(lanes: LaneSelection, isPaused: boolean, now: number, by?: By): void
  /** Takes back the pause of the lanes of a run. They are as paused as the other rules say. */
  endPause(lanes: Pick<Lane, 'kind' | 'key'>): void
  /** Limits each of the lanes that match. */
  limit(lanes: LaneSelection, limits: LaneLimits, now: number): void
  /** Limits the lanes that match together. */
  share(lanes: LaneSelection, limits: SharedLimits): void
  /** Notes what code declares. Returns false if it is the same as the last time. */
  declare(declaration: Declaration): boolean
}
