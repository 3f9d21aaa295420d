import type { OrderRow } from './statements/advance.js'
import type { OpenLaneRow, ReadyRow } from './statements/claim.js'
import type { Statements } from './statements.js'

/** The rate of a lane, and what is left of it. */
type RateRow = Pick<OpenLaneRow, 'per_second' | 'tokens' | 'refilled_at'>

/** The limits of a lane, and what is left of them. */
export type LimitsRow = RateRow & Pick<OpenLaneRow, 'concurrency' | 'ramp' | 'running'>

/** The ready tasks of a lane in order, as many as its limits allow, fetched in chunks. */
export class LaneQueue {
  readonly lane: OpenLaneRow
  taken = 0
  readonly #statements: Statements
  readonly #chunk: number
  readonly #most: number
  #rows: ReadyRow[] = []
  #next = 0

  constructor(statements: Statements, lane: OpenLaneRow, now: number, chunk: number) {
    this.#statements = statements
    this.lane = lane
    this.#chunk = chunk
    this.#most = LaneQueue.allowance(lane, now)
    this.#fetch()
  }

  /** The next task, if there is one and the lane's limits allow it. */
  get head(): ReadyRow | undefined {
    return this.#rows[this.#next]
  }

  /** Takes the head. */
  take(): ReadyRow {
    const row = this.#rows[this.#next]
    if (row === undefined) throw new RangeError(`Nothing is left to take from lane ${this.lane.id}.`)
    this.#next++
    this.taken++
    return row
  }

  /** Whether the whole chunk was taken, so that there may be more. */
  get isEmpty(): boolean {
    return this.#next === this.#chunk
  }

  /** Fetches the next chunk. The tasks taken so far must have been started, or they would be fetched again. */
  refill(): void {
    this.#fetch()
  }

  /** The number of tasks that the rate of a lane lets start. At most one second's worth is saved up. */
  static tokens({ per_second, tokens, refilled_at }: RateRow, now: number): number {
    if (per_second === null) return Infinity
    const refilled = tokens + (Math.max(0, now - refilled_at) * per_second) / 1000
    return Math.min(Math.max(1, per_second), refilled)
  }

  /** The number of tasks that the limits of a lane let start. */
  static allowance(lane: LimitsRow, now: number): number {
    const places = Math.min(lane.concurrency ?? Infinity, lane.ramp ?? Infinity) - lane.running
    return Math.min(places, Math.floor(LaneQueue.tokens(lane, now) + 1e-9))
  }

  #fetch(): void {
    const count = Math.min(this.#chunk, this.#most - this.taken)
    this.#rows = count > 0 ? this.#statements.ready.all(this.lane.id, count) : []
    this.#next = 0
  }
}

/** Whether a task comes before another one of its lane. */
export function comesBefore(a: OrderRow, b: OrderRow): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority
  return a.submitted_at === b.submitted_at ? a.id < b.id : a.submitted_at < b.submitted_at
}

/** The order of ready tasks. */
export function byOrder(a: ReadyRow, b: ReadyRow): number {
  return b[2] - a[2] || a[3] - b[3] || (a[1] < b[1] ? -1 : 1)
}
