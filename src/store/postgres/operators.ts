import type { LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { Retention } from '../contract/store.js'
import { checkedLimits } from '../rules/lane-limits.js'
import { cancelRecord, discardRecord, editRecord, limitRecord, pauseRecord } from '../rules/operator-record.js'
import { checkedShared, declarationOf, isShared, NEW_STATE } from '../rules/shared-limit.js'
import { type Database, int4, LONG, wholeMs } from './database.js'
import type { Signals } from './signals.js'
import { storable } from './text.js'

/** An operator's verbs. With `by`, each appends its audit record in the same transaction. */
export class Operators {
  readonly #database: Database
  readonly #signals: Signals

  constructor(database: Database, signals: Signals) {
    this.#database = database
    this.#signals = signals
  }

  async redrive(ids: readonly string[], by: By): Promise<string[]> {
    const values = [ids, ...byValues(by), null, null, this.#database.at]
    const moved = inOrder(ids, await this.#database.call('redrive', values, LONG))
    if (moved.length > 0) this.#signals.ring()
    return moved
  }

  async cancel(ids: readonly string[], by: By | undefined): Promise<string[]> {
    const cancel = async (call: Call) => inOrder(ids, await call('cancel', [ids, ...byValues(by), this.#database.at]))
    const cancelled = await this.#onRecord(by, cancel, cancelRecord)
    if (cancelled.length > 0) this.#signals.ring()
    return cancelled
  }

  discard(ids: readonly string[], by: Required<By>): Promise<string[]> {
    const values = [ids, ...byValues(by), null, null, this.#database.at]
    return this.#onRecord(by, async call => inOrder(ids, await call('discard', values)), discardRecord)
  }

  edit(id: string, payload: string, by: By): Promise<boolean> {
    return this.#database.callTogether(async call => {
      const { at } = this.#database
      if ((await call('edit', [id, payload, ...byValues(by), at])) !== true) return false
      const record = editRecord(id, by, Number(await call('now_ms', [at])))
      await call('append_audit', [JSON.stringify([record]), at])
      return true
    })
  }

  async pause(lanes: LaneSelection, isPaused: boolean, by: By | undefined): Promise<void> {
    const { kind, category = null, key = null } = lanes
    await this.#onRecord(
      by,
      call => call('pause', [kind, category, key, isPaused, ...byValues(by), this.#database.at]),
      (_, by, now) => pauseRecord(lanes, isPaused, by, now),
    )
    if (!isPaused) this.#signals.ring()
  }

  async limit(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by: By | undefined): Promise<void> {
    const checked = isShared(limits) ? checkedShared(lanes, limits) : checkedLimits(limits)
    const declaration = declarationOf(lanes, limits)
    if (declaration !== undefined && isShared(checked)) return this.#declare(lanes, checked, declaration)
    await this.#onRecord(
      by,
      call => (isShared(checked) ? this.#share(call, lanes, checked) : this.#limitEach(call, lanes, checked)),
      (_, by, now) => limitRecord(lanes, checked, by, now),
    )
    this.#signals.ring()
  }

  async #declare(
    lanes: LaneSelection,
    limits: SharedLimits,
    declaration: { readonly lanes: string; readonly limits: string },
  ): Promise<void> {
    await this.#database.callTogether(async call => {
      const isNew = await call('declare_limits', [declaration.lanes, declaration.limits])
      if (isNew === true) await this.#share(call, lanes, limits)
    })
    this.#signals.ring()
  }

  #limitEach(call: Call, lanes: LaneSelection, limits: LaneLimits): Promise<unknown> {
    const { kind, category = null, key = null } = lanes
    const { concurrency = null, perSecond = null, isOrdered = false } = limits
    return call('limit_lanes', [kind, category, key, concurrency, perSecond, isOrdered, this.#database.at])
  }

  #share(call: Call, lanes: LaneSelection, limits: SharedLimits): Promise<unknown> {
    const { kind, category = null } = lanes
    return call('limit_shared', [kind, category, JSON.stringify(limits), JSON.stringify(NEW_STATE)])
  }

  async prune({ endedMs, deadMs, keysMs, auditMs }: Retention, limit: number): Promise<number> {
    const ages = [endedMs, deadMs, keysMs, auditMs].map(age => (age === undefined ? null : wholeMs(age)))
    return Number(await this.#database.call('prune', [...ages, int4(limit), this.#database.at], LONG))
  }

  /** Forgets runs that ended long enough ago. Returns how many items and runs it deleted. */
  async pruneRuns({ endedMs, deadMs }: Retention, limit: number): Promise<number> {
    if (endedMs === undefined) return 0
    const values = [wholeMs(endedMs), deadMs === undefined ? null : wholeMs(deadMs), int4(limit), this.#database.at]
    return Number(await this.#database.call('prune_runs', values, LONG))
  }

  /** Carries an act out and, if somebody stands for it, puts it on record in the same transaction. */
  #onRecord<T>(
    by: By | undefined,
    act: (call: Call) => Promise<T>,
    recordOf: (result: T, by: By, now: number) => string,
  ): Promise<T> {
    if (by === undefined) return act((fn, values) => this.#database.call(fn, values, LONG))
    return this.#database.callTogether(async call => {
      const { at } = this.#database
      const result = await act(call)
      const record = recordOf(result, by, Number(await call('now_ms', [at])))
      await call('append_audit', [JSON.stringify([record]), at])
      return result
    })
  }
}

type Call = (fn: string, values: unknown[]) => Promise<unknown>

/** The ids that an answer names, in the order in which they were given. */
export function inOrder(ids: readonly string[], answer: unknown): string[] {
  const named = new Set(JSON.parse(String(answer)) as string[])
  return [...new Set(ids)].filter(id => named.has(id))
}

/** The person and the reason, as the SQL functions take them. */
export function byValues(by: By | undefined): (string | null)[] {
  return [storable(by?.who) ?? null, storable(by?.why) ?? null]
}
