import type { Lane, LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { LanePort } from '../port/lane-port.js'
import type { Promised } from '../port/steps.js'
import { type Declaration, NEW_STATE } from '../rules/shared-limit.js'
import type { Sql } from './database.js'
import { byValues } from './text.js'

/** The primitives of lanes on PostgreSQL. */
export class PostgresLanePort implements Promised<LanePort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async make(lanes: readonly Lane[]): Promise<void> {
    await this.#sql.call('make_lanes', [JSON.stringify(lanes)])
  }

  async pause(lanes: LaneSelection, isPaused: boolean, now: number, by?: By): Promise<void> {
    await this.#sql.call('pause', [...selectionValues(lanes), isPaused, ...byValues(by), now])
  }

  async endPause({ kind, key }: Pick<Lane, 'kind' | 'key'>): Promise<void> {
    await this.#sql.call('end_pause', [kind, key])
  }

  async limit(lanes: LaneSelection, limits: LaneLimits, now: number): Promise<void> {
    const { concurrency = null, perSecond = null, isOrdered = false } = limits
    await this.#sql.call('limit_lanes', [...selectionValues(lanes), concurrency, perSecond, isOrdered, now])
  }

  async share(lanes: LaneSelection, limits: SharedLimits): Promise<void> {
    const { kind, category = null } = lanes
    await this.#sql.call('limit_shared', [kind, category, JSON.stringify(limits), JSON.stringify(NEW_STATE)])
  }

  async declare({ lanes, limits }: Declaration): Promise<boolean> {
    return (await this.#sql.call('declare_limits', [lanes, limits])) === true
  }
}

function selectionValues({ kind, category, key }: LaneSelection): (string | null)[] {
  return [kind, category ?? null, key ?? null]
}
