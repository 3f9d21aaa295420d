import { isOneLane } from '../lane-limits.js'
import type { Lane, LaneLimits } from '../store.js'
import { MemoryLane, type Turn } from './lane.js'
import { goesBefore, type MemoryTask } from './task.js'

/** Which lanes are meant: those that agree in every field that is given. */
export type LaneFilter = Partial<Lane>

/** What was said of all lanes that match, those that come later included. */
interface Rule<T> {
  readonly lanes: LaneFilter
  readonly said: T
}

/** All lanes of the memory store, who is next, and what was said of those that come later. */
export class MemoryLanes {
  readonly #lanes = new Map<string, MemoryLane>()
  /** In the order of the turns: who was served goes to the end. Only those with ready tasks. */
  readonly #turns = new Set<Turn>()
  readonly #unkeyed: Turn = new Set()
  /** Lanes with ready tasks that must run alone. */
  readonly #alone = new Set<MemoryLane>()
  #pauses: Rule<boolean>[] = []
  #limits: Rule<LaneLimits>[] = []

  /** Every lane that ever was. */
  all(): Iterable<MemoryLane> {
    return this.#lanes.values()
  }

  /** The lane, made if it was not there. */
  of({ kind, category, key }: Lane): MemoryLane {
    const name = JSON.stringify([kind, category, key])
    let lane = this.#lanes.get(name)
    if (lane === undefined) {
      const named = { kind, category, key }
      const turn = key === '' ? this.#unkeyed : new Set<MemoryLane>()
      lane = new MemoryLane(named, turn, lastWord(this.#pauses, named) ?? false, lastWord(this.#limits, named) ?? {})
      this.#lanes.set(name, lane)
    }
    return lane
  }

  addReady(task: MemoryTask): void {
    const { lane } = task
    if (task.record.losses > 0) {
      lane.alone.push(task)
      this.#alone.add(lane)
    } else {
      lane.ready.push(task)
      lane.turn.add(lane)
      this.#turns.add(lane.turn)
    }
  }

  /** Takes up to so many tasks, turn by turn, from lanes that are allowed. The caller starts each before the next. */
  *take(limit: number, isAllowed: (lane: MemoryLane) => boolean, now: number): Iterable<MemoryTask> {
    let taken = 0
    if (limit <= 0) return
    // A turn that was served is added again at the end, where this same iteration comes to it once more.
    for (const turn of this.#turns) {
      const lane = firstLane(
        turn,
        'ready',
        candidate => isAllowed(candidate) && candidate.isOpen(now) && !candidate.isBlocked,
      )
      const task = lane?.ready.pop()
      if (task !== undefined || turn.size === 0) this.#turns.delete(turn)
      if (task === undefined) continue
      this.#turns.add(turn)
      yield task
      if (++taken >= limit) return
    }
  }

  /** The first lane with a task that could run alone now. */
  firstAlone(isAllowed: (lane: MemoryLane) => boolean, now: number): MemoryLane | undefined {
    return firstLane(this.#alone, 'alone', lane => isAllowed(lane) && lane.isOpen(now))
  }

  /** When the next of the lanes that have ready tasks, and room, opens. */
  nextOpening(isAllowed: (lane: MemoryLane) => boolean, now: number): number {
    let next = Infinity
    for (const lanes of [...this.#turns, this.#alone]) {
      for (const lane of lanes) {
        if (isAllowed(lane) && lane.hasRoom && lane.opensAt > now) next = Math.min(next, lane.opensAt)
      }
    }
    return next
  }

  pause(lanes: LaneFilter, isPaused: boolean): void {
    this.#pauses = withRule(this.#pauses, { lanes, said: isPaused })
    for (const lane of this.#matching(lanes)) lane.isPaused = isPaused
  }

  limit(lanes: LaneFilter & { readonly kind: string }, limits: LaneLimits): void {
    // One lane needs no rule: it is made.
    if (isOneLane(lanes)) return void this.of(lanes).limit(limits)
    this.#limits = withRule(this.#limits, { lanes, said: limits })
    for (const lane of this.#matching(lanes)) lane.limit(limits)
  }

  #matching(lanes: LaneFilter): MemoryLane[] {
    return [...this.all()].filter(lane => matches(lanes, lane))
  }
}

/** The rules with a new one, which overrules those that it covers. */
function withRule<T>(rules: readonly Rule<T>[], rule: Rule<T>): Rule<T>[] {
  return [...rules.filter(({ lanes }) => !matches(rule.lanes, lanes)), rule]
}

function lastWord<T>(rules: readonly Rule<T>[], lane: Lane): T | undefined {
  return rules.findLast(({ lanes }) => matches(lanes, lane))?.said
}

/** Whether something lies within what a filter means; an empty category or key is one of its own. */
export function matches(filter: LaneFilter, { kind, category, key }: LaneFilter): boolean {
  return (
    (filter.kind === undefined || filter.kind === kind) &&
    (filter.category === undefined || filter.category === category) &&
    (filter.key === undefined || filter.key === key)
  )
}

/** The lane whose first task goes before those of the others. Lanes that have none are dropped on the way. */
function firstLane(
  lanes: Set<MemoryLane>,
  queue: 'ready' | 'alone',
  isOpen: (lane: MemoryLane) => boolean,
): MemoryLane | undefined {
  let first: { readonly lane: MemoryLane; readonly task: MemoryTask } | undefined
  for (const lane of lanes) {
    const task = lane[queue].peek()
    if (task === undefined) lanes.delete(lane)
    else if (isOpen(lane) && (first === undefined || goesBefore(task, first.task))) first = { lane, task }
  }
  return first?.lane
}
