import type { SharedLimits } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'
import {
  afterAnswer,
  afterRefusal,
  afterStart,
  afterUse,
  opensAt,
  quotaRoom,
  type SharedState,
} from '../rules/shared-limit.js'
import type { SharedRow } from './statements/shared-limits.js'
import type { Statements } from './statements.js'

/** A shared limit, as a job sees and changes it. */
interface SharedLimit {
  readonly limits: SharedLimits
  state: SharedState
  running: number
  /** Attempts that were accepted, and are not in the state yet. */
  accepted: number
  acceptedAt: number
}

/** Whether a task may start, and when time lets it if it may not. */
export interface Opening {
  readonly isOpen: boolean
  readonly at: number
}

/** The shared limits that a job reads and changes, so that each is written once. */
export class SharedBook {
  readonly #statements: Statements
  readonly #limits = new Map<number, SharedLimit>()
  readonly #changed = new Set<number>()

  constructor(statements: Statements) {
    this.#statements = statements
  }

  /** Whether the cost of its tasks matters. */
  hasRates(id: number): boolean {
    return this.#of(id).limits.rates !== undefined
  }

  opening(id: number, cost: Cost | undefined, now: number): Opening {
    const { limits, state, running } = this.#of(id)
    const at = opensAt(limits, state, cost, now)
    const hasRoom = running < (limits.concurrency ?? Infinity)
    return { isOpen: hasRoom && at <= now, at: hasRoom ? at : Infinity }
  }

  /** How many tasks of a quota may start now, at a cost of 1. */
  room(id: number, now: number): number {
    const { limits, state, running } = this.#of(id)
    return quotaRoom(limits, state, running, now)
  }

  /** As `opening`, for a task that costs nothing: whether any task could start. */
  openingForAny(id: number, now: number): Opening {
    const names = Object.keys(this.#of(id).limits.rates ?? {})
    return this.opening(id, Object.fromEntries(names.map(name => [name, 0])), now)
  }

  start(id: number, cost: Cost | undefined, now: number): void {
    const limit = this.#of(id)
    this.#set(id, limit, afterStart(limit.limits, limit.state, cost, now))
  }

  use(id: number, cost: Cost | undefined, used: Cost, now: number): void {
    const limit = this.#of(id)
    this.#set(id, limit, afterUse(limit.limits, limit.state, cost, used, now))
  }

  answered(id: number, now: number): void {
    const limit = this.#of(id)
    limit.accepted++
    limit.acceptedAt = now
  }

  refused(id: number, task: string, began: number, until: number, now: number): void {
    const limit = this.#of(id)
    this.#countAnswers(id, limit)
    this.#set(id, limit, afterRefusal(limit.state, task, began, until, now))
  }

  /** Counts tasks that run, or run no more. */
  count(id: number, running: number): void {
    this.#of(id).running += running
  }

  write(): void {
    for (const [id, limit] of this.#limits) this.#countAnswers(id, limit)
    for (const id of this.#changed) this.#statements.setShared.run(JSON.stringify(this.#of(id).state), id)
  }

  #countAnswers(id: number, limit: SharedLimit): void {
    if (limit.accepted > 0) this.#set(id, limit, afterAnswer(limit.state, limit.acceptedAt, limit.accepted))
    limit.accepted = 0
  }

  #set(id: number, limit: SharedLimit, state: SharedState): void {
    if (state === limit.state) return
    limit.state = state
    this.#changed.add(id)
  }

  #of(id: number): SharedLimit {
    let limit = this.#limits.get(id)
    if (limit === undefined) {
      const row = this.#statements.shared.get(id)
      if (row === undefined) throw new RangeError(`There is no shared limit ${id}.`)
      limit = { ...parsedShared(row), running: this.#statements.sharedRunning.get(id) ?? 0, accepted: 0, acceptedAt: 0 }
      this.#limits.set(id, limit)
    }
    return limit
  }
}

/** Reads a row of the table `shared_limit`. */
export function parsedShared({ limits, state }: SharedRow): { limits: SharedLimits; state: SharedState } {
  return { limits: JSON.parse(limits) as SharedLimits, state: JSON.parse(state) as SharedState }
}

/** Reads the cost of a task. */
export function parsedCost(text: string | null | undefined): Cost | undefined {
  return text === null || text === undefined ? undefined : (JSON.parse(text) as Cost)
}
