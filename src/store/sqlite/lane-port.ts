import type { Lane, LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { LanePort } from '../port/lane-port.js'
import { isOneLane } from '../rules/lane-limits.js'
import { type Declaration, NEW_STATE, relimited } from '../rules/shared-limit.js'
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

  limit(lanes: LaneSelection, limits: LaneLimits, now: number): void {
    const { statements } = this.#parts
    const { concurrency = null, perSecond: per_second = null, isOrdered } = limits
    const columns = { concurrency, per_second, ordered: isOrdered ? 1 : 0 }
    if (isOneLane(lanes)) {
      // A single lane is made if it does not exist, so it needs no rule.
      const id = this.#parts.lanes.of(lanes.kind, lanes.category, lanes.key)
      statements.limitLane.run({ id, ...columns, now })
      return
    }
    const rule = ruleOf(lanes)
    statements.dropLimitRules.run(rule)
    statements.addLimitRule.run({ ...rule, ...columns })
    statements.limitLanes.run({ ...rule, ...columns, now })
  }

  share(lanes: LaneSelection, limits: SharedLimits): void {
    const { kind, category = null } = lanes
    const id = this.#changeShared({ kind, category }, limits)
    // The new rule replaces those that it covers.
    this.#parts.statements.share.run({ kind, category, id })
    this.#parts.statements.dropShared.run({ kind, category, id })
  }

  declare(declaration: Declaration): boolean {
    return this.#parts.statements.declare.run({ ...declaration }).changes > 0
  }

  /** Writes the limits of a selection. Returns the id of the record. */
  #changeShared(rule: { readonly kind: string; readonly category: string | null }, limits: SharedLimits): number {
    const { statements } = this.#parts
    const known = statements.sharedFor.get(rule)
    const text = JSON.stringify(limits)
    if (known === undefined) {
      const added = statements.addShared.run({ ...rule, limits: text, state: JSON.stringify(NEW_STATE) })
      return Number(added.lastInsertRowid)
    }
    const before = parsedShared(known)
    const state = JSON.stringify(relimited(before.state, before.limits, limits))
    statements.changeShared.run({ id: known.id, limits: text, state })
    return known.id
  }
}

function ruleOf({ kind, category, key }: LaneSelection) {
  return { kind, category: category ?? null, key: key ?? null }
}
