import type { Cost, TaskStatus } from '../contract/task.js'
import { rampedUp } from '../rules/lane-limits.js'
import { BudgetBook, type RunEnd } from './budget-book.js'
import { CostBook } from './cost-book.js'
import { GroupBook } from './group-book.js'
import { comesBefore, LaneQueue } from './lane-queue.js'
import { makeReady } from './make-ready.js'
import { SharedBook } from './shared-book.js'
import type { OrderRow } from './statements/advance.js'
import type { LaneStateRow } from './statements/lanes.js'
import type { Statements } from './statements.js'

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

/** A lane that is gone. */
const NO_LANE: LaneStateRow = {
  paused: 0,
  held_until: 0,
  held_by: null,
  ordered: 0,
  blocking: 0,
  running: 0,
  ramp: null,
  concurrency: null,
  per_second: null,
  tokens: 0,
  refilled_at: 0,
  shared: null,
}

/** The changes that a job makes to lanes, collected so that each lane is written once. */
export class LaneBook {
  readonly #statements: Statements
  readonly #moves = new Map<number, Counts>()
  readonly #states = new Map<number, LaneStateRow>()
  readonly #rampChanges = new Set<number>()
  readonly #charged = new Set<number>()
  /** The first ready task of lanes that items advance to; `null` if there is none. */
  readonly #heads = new Map<number, OrderRow | null>()
  readonly #shared: SharedBook
  /** The failure groups of the same tasks. */
  readonly groups: GroupBook
  /** Whether a task has ended for which another one with the same unique key was waiting. */
  isAnyFreed = false
  #isDueReady = false
  #isAnyBounded: boolean | undefined
  #isAnyShared: boolean | undefined
  /** `undefined` if no attempt has told what it has spent. */
  #costs: CostBook | undefined
  /** `undefined` if no kind has a budget. */
  #budgets: BudgetBook | undefined

  constructor(statements: Statements) {
    this.#statements = statements
    this.#shared = new SharedBook(statements)
    this.groups = new GroupBook(statements)
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
    if (to === 'waiting') this.#heads.delete(lane)
    const started = (to === 'running' ? count : 0) - (from === 'running' ? count : 0)
    const shared = started === 0 ? null : this.sharedOf(lane)
    if (shared !== null) this.#shared.count(shared, started)
  }

  /** Whether a claim could start an item in a lane before all others there. */
  isOpenFor(lane: number, seq: number, cost: Cost | undefined, now: number): boolean {
    if (!this.#isOpen(lane, now) || this.isGated(lane)) return false
    const shared = this.sharedOf(lane)
    if (shared !== null && !this.#shared.opening(shared, cost, now).isOpen) return false
    const head = this.#headOf(lane, now)
    if (head === null) return true
    const item = this.#statements.order.get(seq)
    return item !== undefined && comesBefore(item, head)
  }

  /** Counts a task that starts in a lane against its rates. */
  charge(lane: number, cost: Cost | undefined, now: number): void {
    const shared = this.sharedOf(lane)
    if (shared !== null) this.#shared.start(shared, cost, now)
    const row = this.#state(lane)
    if (row.per_second === null) return
    this.#states.set(lane, { ...row, tokens: LaneQueue.tokens(row, now) - 1, refilled_at: now })
    this.#charged.add(lane)
  }

  /** Whether the end of a task may let another start, in any lane. Mostly not, and then no lane has to be looked up. */
  get isAnyBounded(): boolean {
    if (this.#isAnyBounded === undefined) this.#readBounds()
    return this.#isAnyBounded === true
  }

  /** The limit that a lane shares; `null` if there is none. */
  sharedOf(lane: number): number | null {
    return this.isAnyBounded && this.#isAnyShared ? this.#state(lane).shared : null
  }

  /** Whether only a claim may start tasks of a lane. */
  isGated(lane: number): boolean {
    return this.isAnyBounded && this.#budgets?.isGated(lane) === true
  }

  /** Whether kinds have budgets. Mostly not, and then no end has to be told. */
  get hasBudgets(): boolean {
    if (this.#isAnyBounded === undefined) this.#readBounds()
    return this.#budgets !== undefined
  }

  /** Tells the budgets of a lane how a run, or several, have ended. */
  told(lane: number, end: RunEnd, now: number): void {
    if (this.hasBudgets) this.#budgets?.ended(lane, end, now)
  }

  /** The id of the retry budget of a lane; `undefined` if it has none. */
  retryBudgetOf(lane: number): number | undefined {
    return this.hasBudgets ? this.#budgets?.retryBudgetOf(lane) : undefined
  }

  /** Whether gates may have to change for what this job has counted. */
  get isToJudge(): boolean {
    return this.#budgets?.isToJudge === true
  }

  /** Whether a lane starts slowly after a hold. */
  isRamping(lane: number): boolean {
    return this.isAnyBounded && this.#state(lane).ramp !== null
  }

  /** The service behind a shared limit has accepted an attempt. */
  accepted(lane: number, now: number): void {
    const shared = this.sharedOf(lane)
    if (shared !== null) this.#shared.answered(shared, now)
  }

  /** Counts what an attempt has spent. A shared limit gets back, or gives, the difference to the cost of the task. */
  spent(lane: number, cost: Cost | undefined, used: Cost, now: number): void {
    this.#costs ??= new CostBook(this.#statements)
    this.#costs.add(lane, used, now)
    if (this.hasBudgets) this.#budgets?.spent(lane, used, now)
    const shared = this.sharedOf(lane)
    if (shared !== null) this.#shared.use(shared, cost, used, now)
  }

  /** A rate limit that a task met holds its lane until a time, or all lanes that share a limit with it. */
  refused(lane: number, task: string, began: number, until: number, now: number): void {
    const shared = this.sharedOf(lane)
    if (shared === null) this.#hold(lane, task, until)
    else this.#shared.refused(shared, task, began, until, now)
  }

  /** An attempt that began after the hold has ended: one more may run. */
  answered(lane: number, began: number): void {
    if (!this.isRamping(lane) || this.isOrdered(lane)) return
    const row = this.#state(lane)
    if (row.ramp === null || began < row.held_until) return
    this.#setRamp(lane, { ...row, ramp: rampedUp(row.ramp) ?? null })
  }

  /** Whether a lane is ordered: a task that waits for its time stays at the head, and all others wait behind it. */
  isOrdered(lane: number): boolean {
    return this.isAnyBounded && this.#state(lane).ordered === 1
  }

  /** The lane that a task blocks with this status: its own, if it is dead and the lane stops at dead letters. */
  blockedBy(lane: number, status: TaskStatus): number | null {
    return status === 'dead' && this.isAnyBounded && this.#state(lane).blocking === 1 ? lane : null
  }

  /** Holds an ordered lane until its first task is due. */
  holdHead(lane: number, task: string, until: number): void {
    const row = this.#state(lane)
    this.#setRamp(lane, until < row.held_until ? row : { ...row, held_until: until, held_by: task })
  }

  /** Ends the hold of an ordered lane whose head waits no more, so that the next one can go on. */
  freeHead(lane: number, task: string): void {
    const row = this.#state(lane)
    if (row.held_by === task) this.#setRamp(lane, { ...row, held_until: 0, held_by: null })
  }

  write(): void {
    for (const [lane, [a, b, c, d, e, f]] of this.#moves) this.#statements.count.run(a, b, c, d, e, f, lane)
    for (const lane of this.#rampChanges) {
      const { ramp, held_until, held_by } = this.#state(lane)
      this.#statements.setRamp.run(ramp, held_until, held_by, lane)
    }
    for (const lane of this.#charged) {
      const { tokens, refilled_at } = this.#state(lane)
      this.#statements.takeFromLane.run({ id: lane, tokens, now: refilled_at })
    }
    this.#shared.write()
    this.#costs?.write()
    this.#budgets?.write()
    this.groups.write()
  }

  /** Afterwards the lane starts with one task. */
  #hold(lane: number, task: string, until: number): void {
    this.holdHead(lane, task, until)
    this.#setRamp(lane, { ...this.#state(lane), ramp: 1 })
  }

  #readBounds(): void {
    const [isBounded, isShared, hasBudgets] = this.#statements.bounds.get() ?? [0, 0, 0]
    if (hasBudgets === 1) this.#budgets = new BudgetBook(this.#statements)
    this.#isAnyShared = isShared === 1
    this.#isAnyBounded = isBounded === 1 || this.#isAnyShared || this.#budgets?.isAnyGating === true
  }

  #isOpen(lane: number, now: number): boolean {
    const row = this.#state(lane)
    const running = row.running + (this.#moves.get(lane)?.[COLUMN.running] ?? 0)
    return (
      row.paused === 0 &&
      row.held_until <= now &&
      running < Math.min(row.ramp ?? Infinity, row.concurrency ?? Infinity) &&
      LaneQueue.tokens(row, now) > 1 - 1e-9 &&
      !(row.ordered === 1 && this.#statements.isBlocked.get({ lane }) === 1) &&
      !(row.blocking === 1 && this.#statements.letter.get({ lane }) !== null)
    )
  }

  #headOf(lane: number, now: number): OrderRow | null {
    let head = this.#heads.get(lane)
    if (head === undefined) {
      // A task that has become due since the last claim is ready, too.
      if (!this.#isDueReady) {
        makeReady(this.#statements, now)
        if (this.hasBudgets) this.#budgets?.letRetriesThrough(now)
      }
      this.#isDueReady = true
      head = this.#statements.head.get(lane) ?? null
      this.#heads.set(lane, head)
    }
    return head
  }

  #state(lane: number): LaneStateRow {
    let row = this.#states.get(lane)
    if (row === undefined) {
      row = this.#statements.laneState.get(lane) ?? NO_LANE
      this.#states.set(lane, row)
    }
    return row
  }

  #setRamp(lane: number, row: LaneStateRow): void {
    this.#states.set(lane, row)
    this.#rampChanges.add(lane)
    // Ask for the bounds before this one is on record.
    if (!this.isAnyBounded) this.#isAnyBounded = true
  }
}
