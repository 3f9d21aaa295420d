import type { SharedLimits } from '../contract/lane.js'
import type { LimitRule } from '../contract/lane-rule.js'
import type { KeptQuota } from '../port/lane-port.js'
import { NEW_STATE, NO_QUOTA_LIMITS } from '../rules/shared-limit.js'
import type { MemoryLane } from './lane.js'
import { MemorySharedLimit } from './shared.js'

/** The quotas of the memory store: for each kind what limits them, and the limit of each. */
export class MemoryQuotas {
  readonly #limits = new Map<string, SharedLimits>()
  readonly #byKind = new Map<string, Map<string, MemorySharedLimit>>()

  /** Puts a lane under a quota. */
  join(lane: MemoryLane, quota: string): void {
    if (lane.shared?.quota !== quota) lane.shared = this.#of(lane.kind, quota)
  }

  lock(kind: string): KeptQuota[] {
    return [...(this.#byKind.get(kind) ?? [])].map(([quota, { limits, state }]) => ({ quota, limits, state }))
  }

  save(kind: string, limits: SharedLimits, states: readonly Pick<KeptQuota, 'quota' | 'state'>[]): void {
    this.#limits.set(kind, limits)
    for (const { quota, state } of states) this.#byKind.get(kind)?.get(quota)?.change({ limits, state })
  }

  /** What limits the quotas of each kind, or of one. */
  rules(kind: string | undefined): LimitRule[] {
    const all = [...this.#limits].map(([kind, limits]) => ({ kind, limits }))
    return kind === undefined ? all : all.filter(rule => rule.kind === kind)
  }

  /** Forgets quotas that no lane is under. */
  forgetIdle(lanes: Iterable<MemoryLane>, now: number): void {
    const used = new Set([...lanes].map(({ shared }) => shared))
    for (const quotas of this.#byKind.values()) {
      for (const [name, limit] of quotas) if (!used.has(limit) && limit.isAtRest(now)) quotas.delete(name)
    }
  }

  #of(kind: string, quota: string): MemorySharedLimit {
    const quotas = this.#byKind.get(kind) ?? new Map<string, MemorySharedLimit>()
    this.#byKind.set(kind, quotas)
    const limits = this.#limits.get(kind) ?? NO_QUOTA_LIMITS
    const limit = quotas.get(quota) ?? new MemorySharedLimit({ limits, state: NEW_STATE }, quota)
    quotas.set(quota, limit)
    return limit
  }
}
