import type { Lane, LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { KeptQuota, KeptSharedLimit, LanePort, SharedSelection } from '../port/lane-port.js'
import { type Declaration, NEW_STATE } from '../rules/shared-limit.js'
import type { SqliteParts } from './port.js'
import { parsedShared } from './shared-book.js'

/** The primitives of lanes on SQLite. */
export class SqliteLanePort implements LanePort {
  readonly #parts: SqliteParts

  constructor(parts: SqliteParts) {
    this.#parts = parts
  }

  make(lanes: readonly Lane[]): void {
    for (const { kind, category, key } of lanes) this.#parts.lanes.of(kind, category, key)
  }

  pause(lanes: LaneSelection, isPaused: boolean, now: number, by?: By): void {
    const { statements } = this.#parts
    const rule = ruleOf(lanes)
    const paused = isPaused ? 1 : 0
    // The new rule replaces those that it covers.
    statements.dropPauseRules.run(rule)
    statements.addPauseRule.run({ ...rule, paused, at: now, who: by?.who ?? null, why: by?.why ?? null })
    statements.keepRunPauses.run({ kind: rule.kind, key: rule.key })
    statements.pause.run({ ...rule, paused })
  }

  endPause(lanes: Pick<Lane, 'kind' | 'key'>): void {
    this.#parts.runs.dropPauseRule.run(lanes)
    this.#parts.runs.pauseByRules.run(lanes)
  }

  addLimitRule(lanes: LaneSelection, limits: LaneLimits): void {
    const { statements } = this.#parts
    const rule = ruleOf(lanes)
    statements.dropLimitRules.run(rule)
    statements.addLimitRule.run({ ...rule, ...limitColumns(limits) })
  }

  setLimits(lanes: LaneSelection, limits: LaneLimits, now: number): void {
    this.#parts.statements.limitLanes.run({ ...ruleOf(lanes), ...limitColumns(limits), now })
  }

  lockShared({ kind, category }: SharedSelection): KeptSharedLimit | undefined {
    const known = this.#parts.statements.sharedFor.get({ kind, category: category ?? null })
    return known && parsedShared(known)
  }

  saveShared({ kind, category }: SharedSelection, { limits, state }: KeptSharedLimit): void {
    const { statements } = this.#parts
    const rule = { kind, category: category ?? null }
    const texts = { limits: JSON.stringify(limits), state: JSON.stringify(state) }
    const known = statements.sharedFor.get(rule)?.id
    const id = known ?? Number(statements.addShared.run({ ...rule, ...texts }).lastInsertRowid)
    if (known !== undefined) statements.changeShared.run({ id, ...texts })
    // The new rule replaces those that it covers.
    statements.share.run({ ...rule, id })
    statements.dropShared.run({ ...rule, id })
  }

  lockQuotas(kind: string): readonly KeptQuota[] {
    return this.#parts.statements.quotas.all(kind).map(({ quota, ...row }) => ({ quota, ...parsedShared(row) }))
  }

  saveQuotas(kind: string, limits: SharedLimits, states: readonly Pick<KeptQuota, 'quota' | 'state'>[]): void {
    const texts = { kind, limits: JSON.stringify(limits) }
    for (const { quota, state } of [...states, { quota: '', state: NEW_STATE }])
      this.#parts.statements.saveQuota.run({ ...texts, quota, state: JSON.stringify(state) })
  }

  declare(declaration: Declaration): boolean {
    return this.#parts.statements.declare.run({ ...declaration }).changes > 0
  }
}

function ruleOf({ kind, category, key }: LaneSelection) {
  return { kind, category: category ?? null, key: key ?? null }
}

function limitColumns({ concurrency, perSecond, isOrdered, onDead }: LaneLimits) {
  return {
    concurrency: concurrency ?? null,
    per_second: perSecond ?? null,
    ordered: isOrdered ? 1 : 0,
    blocking: onDead === 'block' ? 1 : 0,
  }
}
