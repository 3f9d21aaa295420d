import type { Lane, LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { KeptQuota, KeptSharedLimit, LanePort, SharedSelection } from '../port/lane-port.js'
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

  async addLimitRule(lanes: LaneSelection, limits: LaneLimits): Promise<void> {
    await this.#sql.call('add_limit_rule', [...selectionValues(lanes), ...limitValues(limits)])
  }

  async setLimits(lanes: LaneSelection, limits: LaneLimits, now: number): Promise<void> {
    await this.#sql.call('set_limits', [...selectionValues(lanes), ...limitValues(limits), now])
  }

  async lockShared({ kind, category }: SharedSelection): Promise<KeptSharedLimit | undefined> {
    const found = await this.#sql.call('lock_shared', [kind, category ?? null])
    return found === null ? undefined : (JSON.parse(String(found)) as KeptSharedLimit)
  }

  async saveShared({ kind, category }: SharedSelection, { limits, state }: KeptSharedLimit): Promise<void> {
    await this.#sql.call('save_shared', [kind, category ?? null, JSON.stringify(limits), JSON.stringify(state)])
  }

  async lockQuotas(kind: string): Promise<readonly KeptQuota[]> {
    return JSON.parse(String(await this.#sql.call('lock_quotas', [kind]))) as KeptQuota[]
  }

  async saveQuotas(
    kind: string,
    limits: SharedLimits,
    states: readonly Pick<KeptQuota, 'quota' | 'state'>[],
  ): Promise<void> {
    const kept = [{ quota: '', state: NEW_STATE }, ...states.filter(({ quota }) => quota !== '')]
    await this.#sql.call('save_quotas', [kind, JSON.stringify(limits), JSON.stringify(kept)])
  }

  async declare({ lanes, limits }: Declaration): Promise<boolean> {
    return (await this.#sql.call('declare_limits', [lanes, limits])) === true
  }
}

function selectionValues({ kind, category, key }: LaneSelection): (string | null)[] {
  return [kind, category ?? null, key ?? null]
}

function limitValues({ concurrency, perSecond, isOrdered, onDead }: LaneLimits): (number | boolean | null)[] {
  return [concurrency ?? null, perSecond ?? null, isOrdered ?? false, onDead === 'block']
}
