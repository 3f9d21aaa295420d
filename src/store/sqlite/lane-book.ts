import { RAMP_END } from '../lane-limits.js'
import type { TaskStatus } from '../store.js'
import type { RampRow, Statements } from './statements.js'

/** The place of each status in the statement `count`. */
const COLUMN = {
  waiting: 0,
  running: 1,
  succeeded: 2,
  skipped: 3,
  dead: 4,
  cancelled: 5,
} as const satisfies Record<TaskStatus, number>

type Counts = [number, number, number, number, number, number]

/** The changes that a job makes to lanes, collected so that each lane is written once. */
export class LaneBook {
  readonly #statements: Statements
  readonly #moves = new Map<number, Counts>()
  readonly #ramps = new Map<number, RampRow>()
  readonly #rampChanges = new Set<number>()
  #isAnyBounded: boolean | undefined

  constructor(statements: Statements) {
    this.#statements = statements
  }

  /** Counts tasks that go from one status to another. A new task comes from none, a deleted one goes to none. */
  move(lane: number, from: TaskStatus | undefined, to: TaskStatus | undefined, count = 1): void {
    let counts = this.#moves.get(lane)
    if (counts === undefined) {
      counts = [0, 0, 0, 0, 0, 0]
      this.#moves.set(lane, counts)
    }
    if (from !== undefined) counts[COLUMN[from]] -= count
    if (to !== undefined) counts[COLUMN[to]] += count
  }

  /** Whether any lane is bounded. Mostly none is, and then no lane has to be looked up. */
  get isAnyBounded(): boolean {
    this.#isAnyBounded ??= this.#statements.isAnyBounded.get() === 1
    return this.#isAnyBounded
  }

  /** Whether a lane starts slowly after a hold. */
  isRamping(lane: number): boolean {
    return this.isAnyBounded && this.#ramp(lane).ramp !== null
  }

  /** An attempt that began after the hold has ended: one more may run, so that the number doubles with every round. */
  answered(lane: number, began: number): void {
    if (!this.isRamping(lane) || this.isOrdered(lane)) return
    const { ramp, held_until, ordered } = this.#ramp(lane)
    if (ramp === null || began < held_until) return
    this.#setRamp(lane, { ramp: ramp + 1 < RAMP_END ? ramp + 1 : null, held_until, ordered })
  }

  /** Whether a lane is ordered: a task that waits for its time stays at the head, and all others wait behind it. */
  isOrdered(lane: number): boolean {
    return this.isAnyBounded && this.#ramp(lane).ordered === 1
  }

  /** Holds a lane until a time. Afterwards it starts with one task. */
  hold(lane: number, until: number): void {
    this.holdHead(lane, until)
    this.#setRamp(lane, { ...this.#ramp(lane), ramp: 1 })
  }

  /** Holds an ordered lane until its first task is due. */
  holdHead(lane: number, until: number): void {
    const row = this.#ramp(lane)
    this.#setRamp(lane, { ...row, held_until: Math.max(until, row.held_until) })
  }

  write(): void {
    for (const [lane, [a, b, c, d, e, f]] of this.#moves) this.#statements.count.run(a, b, c, d, e, f, lane)
    for (const lane of this.#rampChanges) {
      const { ramp, held_until } = this.#ramp(lane)
      this.#statements.setRamp.run(ramp, held_until, lane)
    }
  }

  #ramp(lane: number): RampRow {
    let row = this.#ramps.get(lane)
    if (row === undefined) {
      row = this.#statements.ramp.get(lane) ?? { ramp: null, held_until: 0, ordered: 0 }
      this.#ramps.set(lane, row)
    }
    return row
  }

  #setRamp(lane: number, row: RampRow): void {
    this.#ramps.set(lane, row)
    this.#rampChanges.add(lane)
    this.#isAnyBounded = true
  }
}
