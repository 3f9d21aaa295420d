import type { Lane, LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { LaneRules, PauseRule } from '../contract/lane-rule.js'
import type { By } from '../contract/ledger.js'
import type { KeptQuota, KeptSharedLimit, LanePort, SharedSelection } from '../port/lane-port.js'
import { runsAlone } from '../rules/after-settlement.js'
import { isItem } from '../rules/runs/items.js'
import type { Declaration } from '../rules/shared-limit.js'
import type { CountedSharedLimit } from '../rules/stats-book.js'
import { MemoryLane } from './lane.js'
import { MemoryLaneRules, matches } from './lane-rules.js'
import { MemoryQuotas } from './quotas.js'
import { MemorySharedLimit } from './shared.js'
import { goesBefore, type MemoryTask } from './task.js'

/** A pause of lanes, or its end, with the person who asked for it. */
type Pause = Pick<PauseRule, 'isPaused' | 'at' | 'by'>

/** Which lanes a claim may take from. */
export type LaneTest = (lane: MemoryLane) => boolean

/** All lanes of the memory store with their ready tasks, and the order of their turns. */
export class MemoryLanes implements LanePort {
  readonly #lanes = new Map<string, MemoryLane>()
  readonly #pauses = new MemoryLaneRules<Pause>()
  readonly #limits = new MemoryLaneRules<LaneLimits>()
  readonly #shared = new MemoryLaneRules<MemorySharedLimit>()
  readonly #quotas = new MemoryQuotas()
  /** The last declaration, by the lanes that it is about. */
  readonly #declared = new Map<string, string>()
  /** Lanes with a key that have ready tasks, in the order of their turns: a lane that was served goes to the end. */
  readonly #keyed = new Set<MemoryLane>()
  /** Lanes without a key that have ready tasks. They take one turn together. */
  readonly #unkeyed = new Set<MemoryLane>()
  /** Lanes with ready tasks that must run alone. */
  readonly #alone = new Set<MemoryLane>()
  #turns = 0

  /** Every lane, including empty ones. */
  all(): Iterable<MemoryLane> {
    return this.#lanes.values()
  }

  /** The lane, made if it does not exist; put under a quota, if one is given. */
  of({ kind, category, key }: Lane, quota?: string): MemoryLane {
    const name = JSON.stringify([kind, category, key])
    let lane = this.#lanes.get(name)
    if (lane === undefined) {
      const named = { kind, category, key }
      lane = new MemoryLane(named, this.#pauses.for(named)?.isPaused ?? false, this.#limits.for(named) ?? {})
      lane.shared = this.#shared.for(named)
      this.#lanes.set(name, lane)
    }
    if (quota !== undefined) this.#quotas.join(lane, quota)
    return lane
  }

  make(lanes: readonly Lane[]): void {
    for (const lane of lanes) this.of(lane)
  }

  /** Notes a declaration. Returns false if it is the same as the last one about these lanes. */
  declare({ lanes, limits }: Declaration): boolean {
    const isNews = this.#declared.get(lanes) !== limits
    this.#declared.set(lanes, limits)
    return isNews
  }

  addReady(task: MemoryTask): void {
    const { lane } = task
    if (runsAlone(task.record)) {
      lane.alone.push(task)
      this.#alone.add(lane)
      return
    }
    lane.ready.push(task)
    if (lane.key === '') this.#unkeyed.add(lane)
    else if (!this.#keyed.has(lane)) this.#toTheEnd(lane)
  }

  /**
   * Starts up to `limit` tasks, turn by turn. `unkeyedTurn` is the last turn of the lanes without a key in this room. Returns
   * their new last turn. A shared limit that cannot pay for the first task that asks is closed for the rest of the claim,
   * so that cheaper tasks of other lanes do not starve it.
   */
  take(
    limit: number,
    isAllowed: LaneTest,
    now: number,
    unkeyedTurn: number,
    closed: Set<MemorySharedLimit>,
    start: (task: MemoryTask) => void,
  ): number {
    const isOpen = (lane: MemoryLane) =>
      isAllowed(lane) && lane.isOpen(now) && !lane.isBlocked && !(lane.shared && closed.has(lane.shared))
    let left = limit
    let turn = unkeyedTurn
    let hasUnkeyed = true
    const startFrom = (lane: MemoryLane): boolean => {
      const task = lane.ready.peek()
      if (task === undefined) return false
      if (lane.shared && !lane.canPayFor(task, now)) {
        closed.add(lane.shared)
        return false
      }
      lane.ready.pop()
      start(task)
      left--
      return true
    }
    const serveUnkeyed = () => {
      let lane = firstLane(this.#unkeyed, 'ready', isOpen)
      while (lane !== undefined && !startFrom(lane)) lane = firstLane(this.#unkeyed, 'ready', isOpen)
      hasUnkeyed = lane !== undefined
      turn = ++this.#turns
    }

    // A lane that was served goes to the end, where this same iteration comes to it once more.
    for (const lane of this.#keyed) {
      if (left > 0 && hasUnkeyed && turn < lane.turn) serveUnkeyed()
      if (left <= 0) break
      if (isOpen(lane) && startFrom(lane)) this.#toTheEnd(lane)
      if (lane.ready.peek() === undefined) this.#keyed.delete(lane)
    }
    while (left > 0 && hasUnkeyed) serveUnkeyed()
    return turn
  }

  /** The lane with the first task that must run alone and could start now. */
  firstAlone(isAllowed: LaneTest, now: number): MemoryLane | undefined {
    return firstLane(
      this.#alone,
      'alone',
      lane => isAllowed(lane) && lane.isOpen(now) && lane.mayStartAlone && lane.canPayFor(lane.alone.peek(), now),
    )
  }

  /** The next time at which a lane with ready tasks opens. */
  nextOpening(isAllowed: LaneTest, now: number): number {
    let next = Infinity
    for (const lanes of [this.#keyed, this.#unkeyed, this.#alone]) {
      for (const lane of lanes) {
        const opensAt = isAllowed(lane) && lane.hasRoom ? lane.opensAt(now) : now
        if (opensAt > now) next = Math.min(next, opensAt)
      }
    }
    return next
  }

  /** Pauses lanes, or ends their pause. What stops a run stays: that is for the run to end. */
  pause(lanes: LaneSelection, isPaused: boolean, at: number, by?: By): void {
    const isOfRun = ([{ kind, key }]: readonly [LaneSelection, Pause]) => key !== undefined && isItem({ kind, key })
    const ofRuns = lanes.key === undefined ? this.#pauses.all(lanes).filter(isOfRun) : []
    this.#pauses.add(lanes, { isPaused, at, by })
    for (const [run, kept] of ofRuns) this.#pauses.add(run, kept)
    for (const lane of this.#matching(lanes)) lane.isPaused = this.#pauses.for(lane)?.isPaused ?? false
  }

  /** Takes back a pause of exactly these lanes. They are as paused as the other rules say. */
  endPause(lanes: LaneSelection): void {
    this.#pauses.remove(lanes)
    for (const lane of this.#matching(lanes)) lane.isPaused = this.#pauses.for(lane)?.isPaused ?? false
  }

  /** Forgets lanes with a key that are idle. */
  forgetIdle(tasks: Iterable<MemoryTask>, now: number): void {
    const used = new Set<MemoryLane>()
    for (const { lane } of tasks) used.add(lane)
    for (const [name, lane] of this.#lanes) {
      if (lane.key === '' || lane.hasItems || used.has(lane)) continue
      if (!lane.isAsNew(this.#limits.for(lane) ?? {}, now)) continue
      this.#lanes.delete(name)
      this.#keyed.delete(lane)
      this.#alone.delete(lane)
    }
    this.#quotas.forgetIdle(this.all(), now)
  }

  /** Forgets lanes that have no tasks, with the rules for them. */
  forget(lanes: LaneSelection): void {
    this.#pauses.remove(lanes)
    this.#limits.remove(lanes)
    for (const lane of this.#matching(lanes)) {
      this.#lanes.delete(JSON.stringify([lane.kind, lane.category, lane.key]))
      for (const queue of [this.#keyed, this.#alone]) queue.delete(lane)
    }
  }

  addLimitRule(lanes: LaneSelection, limits: LaneLimits): void {
    this.#limits.add(lanes, limits)
  }

  setLimits(lanes: LaneSelection, limits: LaneLimits): void {
    for (const lane of this.#matching(lanes)) lane.limit(limits)
  }

  lockShared(lanes: SharedSelection): KeptSharedLimit | undefined {
    const known = this.#shared.exactly(lanes)
    return known && { limits: known.limits, state: known.state }
  }

  saveShared(lanes: SharedSelection, limit: KeptSharedLimit): void {
    const known = this.#shared.exactly(lanes)
    known?.change(limit)
    const shared = known ?? new MemorySharedLimit(limit)
    this.#shared.add(lanes, shared)
    for (const lane of this.#matching(lanes)) if (lane.shared?.quota === undefined) lane.shared = shared
  }

  lockQuotas(kind: string): readonly KeptQuota[] {
    return this.#quotas.lock(kind)
  }

  saveQuotas(kind: string, limits: SharedLimits, states: readonly Pick<KeptQuota, 'quota' | 'state'>[]): void {
    this.#quotas.save(kind, limits, states)
  }

  /** The limits that lanes share. */
  shared(): CountedSharedLimit[] {
    return this.#shared.all({}).map(([{ kind, category }, { limits, state }]) => ({ kind, category, limits, state }))
  }

  /** The rules that select any lane with these fields. */
  rules(filter: Partial<Lane>): LaneRules {
    const shared = this.#shared.all(filter).map(([lanes, limit]) => ({ ...lanes, limits: limit.limits }))
    const own = this.#limits.all(filter).map(([lanes, limits]) => ({ ...lanes, limits }))
    return {
      pauses: this.#pauses.all(filter).map(([lanes, pause]) => ({ ...lanes, ...pause })),
      limits: [...own, ...shared, ...this.#quotas.rules(filter.kind)],
    }
  }

  #toTheEnd(lane: MemoryLane): void {
    this.#keyed.delete(lane)
    this.#keyed.add(lane)
    lane.turn = ++this.#turns
  }

  #matching(lanes: LaneSelection): MemoryLane[] {
    return [...this.all()].filter(lane => matches(lanes, lane))
  }
}

/** The lane whose first task goes before those of the others. Lanes without any are dropped on the way. */
function firstLane(lanes: Set<MemoryLane>, queue: 'ready' | 'alone', isOpen: LaneTest): MemoryLane | undefined {
  let first: { readonly lane: MemoryLane; readonly task: MemoryTask } | undefined
  for (const lane of lanes) {
    const task = lane[queue].peek()
    if (task === undefined) lanes.delete(lane)
    else if (isOpen(lane) && (first === undefined || goesBefore(task, first.task))) first = { lane, task }
  }
  return first?.lane
}
