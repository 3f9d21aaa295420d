import { isDeepStrictEqual } from 'node:util'
import type { Lane, LaneLimits, LaneRecord } from '../contract/lane.js'
import type { Cost, TaskRecord } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import { COOLED_MS } from '../rules/idle-lanes.js'
import { rampedUp } from '../rules/lane-limits.js'
import { isItem } from '../rules/runs/items.js'
import type { MemoryHeap } from './heap.js'
import type { LaneEnd, MemorySharedLimit } from './shared.js'
import { goesBefore, type MemoryTask, readyHeap } from './task.js'

/** One lane of the memory store: its ready tasks, and whether another one may start. */
export class MemoryLane implements Lane {
  readonly kind: string
  readonly category: string
  readonly key: string
  readonly ready: MemoryHeap<MemoryTask> = readyHeap()
  /** Ready tasks that must run alone. */
  readonly alone: MemoryHeap<MemoryTask> = readyHeap()
  /** Retries that wait under a budget. */
  readonly budgeted = new Set<MemoryTask>()
  /** Tasks that died while the lane was to stop at dead letters. Some may live again. */
  readonly #letters = new Set<MemoryTask>()
  /** Whether its tasks are items of a run. */
  readonly hasItems: boolean
  isPaused: boolean
  running = 0
  /** Its place in the turns: lanes with a lower one come first. */
  turn = 0
  #shared: MemorySharedLimit | undefined
  #lastSubmittedAt = -Infinity
  #limits: LaneLimits
  #heldUntil = -Infinity
  #heldBy: string | undefined
  /** How many may run at once after a hold (see `rampedUp`). */
  #ramp = Infinity
  /** The time of the last start if all starts had come evenly: the measure of a rate. */
  #evenlyUntil = 0

  constructor({ kind, category, key }: Lane, isPaused: boolean, limits: LaneLimits) {
    this.kind = kind
    this.category = category
    this.key = key
    this.hasItems = isItem({ kind, key })
    this.isPaused = isPaused
    this.#limits = limits
  }

  /** Whether the lane is ordered: a task that waits for its time stays at the head, and all others wait behind it. */
  get isOrdered(): boolean {
    return this.#limits.isOrdered === true
  }

  /** The `submittedAt` of a task that brings none. In an ordered lane it comes after all that are there. */
  submittedAt(now: number): number {
    return this.isOrdered ? Math.max(now, this.#lastSubmittedAt + 1) : now
  }

  /** Notes a new task of this lane. */
  added({ submittedAt }: TaskRecord): void {
    this.#lastSubmittedAt = Math.max(this.#lastSubmittedAt, submittedAt)
  }

  /**
   * Whether its first ready task may not start: one that must run alone goes before it, or one that a retry budget has not let
   * through yet, or a dead letter.
   */
  get isBlocked(): boolean {
    if (!this.isOrdered) return false
    return (
      this.alone.peek() !== undefined || this.budgeted.size > 0 || this.letterBefore(this.ready.peek()) !== undefined
    )
  }

  /** Whether no dead letter is before the first task that must run alone. */
  get mayStartAlone(): boolean {
    return this.letterBefore(this.alone.peek()) === undefined
  }

  /** Notes a task that has died. */
  died(task: MemoryTask): void {
    if (this.#limits.onDead === 'block') this.#letters.add(task)
    else this.#letters.delete(task)
  }

  /** Forgets a task that is deleted, or replaced by a copy. */
  forgetLetter(task: MemoryTask): void {
    this.#letters.delete(task)
  }

  /** Whether a dead letter blocks it. */
  isBlocking(task: MemoryTask): boolean {
    return this.#limits.onDead === 'block' && this.#letters.has(task) && task.record.status === 'dead'
  }

  /** The first dead letter that blocks it, of those before a task. */
  letterBefore(task: MemoryTask | undefined): string | undefined {
    let first: MemoryTask | undefined
    for (const letter of this.#letters) {
      const isAhead = task === undefined || goesBefore(letter, task)
      if (this.isBlocking(letter) && isAhead && (first === undefined || goesBefore(letter, first))) first = letter
    }
    return first?.record.id
  }

  /** The limit that it shares with other lanes. */
  get shared(): MemorySharedLimit | undefined {
    return this.#shared
  }

  set shared(shared: MemorySharedLimit | undefined) {
    if (this.#shared !== undefined) this.#shared.running -= this.running
    if (shared !== undefined) shared.running += this.running
    this.#shared = shared
  }

  /** Whether another task may run as far as numbers go, so that only time can keep the lane closed. */
  get hasRoom(): boolean {
    if (this.isPaused || this.#shared?.hasRoom === false) return false
    return this.running < Math.min(this.#ramp, this.#limits.concurrency ?? Infinity)
  }

  /** Whether the end of one of its tasks can let another one start. */
  get isBounded(): boolean {
    return this.#ramp !== Infinity || this.#limits.concurrency !== undefined || this.#shared?.isBounded === true
  }

  /** When holds and rates let its first task start. */
  opensAt(now: number): number {
    const head = this.ready.peek() ?? this.alone.peek()
    const shared = head === undefined ? undefined : this.#shared?.opensAt(head.cost, now)
    return Math.max(this.#ownOpensAt, shared ?? -Infinity)
  }

  /** How many tasks its own limits let start. */
  allowance(now: number): number {
    if (!this.isOpen(now) || (this.isOrdered && this.budgeted.size > 0)) return 0
    const places = Math.min(this.#ramp, this.#limits.concurrency ?? Infinity) - this.running
    const { perSecond } = this.#limits
    if (perSecond === undefined) return places
    const aheadMs = Math.max(0, this.#evenlyUntil - now)
    return Math.min(places, Math.floor(Math.max(1, perSecond) - (aheadMs * perSecond) / 1000 + 1e-5))
  }

  /** Whether it is as it would be made again with these limits, apart from its tasks. */
  isAsNew(limits: LaneLimits, now: number): boolean {
    const isFree = !this.isPaused && this.#heldUntil <= now && this.#evenlyUntil <= now
    const isCooled = this.#ramp === Infinity || this.#heldUntil <= now - COOLED_MS
    return isFree && isCooled && isDeepStrictEqual(this.#limits, limits)
  }

  /** Whether its own limits let a task start. */
  isOpen(now: number): boolean {
    return this.hasRoom && this.#ownOpensAt <= now
  }

  /** Whether the limit that it shares lets this task start. */
  canPayFor(task: MemoryTask | undefined, now: number): boolean {
    return this.#shared === undefined || task === undefined || this.#shared.opensAt(task.cost, now) <= now
  }

  /** A rate begins with a second's worth. */
  limit(limits: LaneLimits): void {
    if (isDeepStrictEqual(this.#limits, limits)) return
    this.#limits = limits
    this.#evenlyUntil = 0
  }

  /** Counts a task that starts. */
  start(cost: Cost | undefined, now: number): void {
    this.running++
    this.#shared?.start(cost, now)
    const { perSecond } = this.#limits
    if (perSecond !== undefined) this.#evenlyUntil = Math.max(this.#evenlyUntil, now) + 1000 / perSecond
  }

  /** Counts a task that has ended, and learns from how it did. */
  end(task: string, startedAt: number, after: LaneEnd, now: number): void {
    const { nextAttemptAt } = after
    this.running--
    this.#shared?.end(task, startedAt, after, now)
    // A refusal holds all lanes that share a limit, and then it is their pace that is learned.
    const lane = after.lane === 'hold' && this.#shared !== undefined ? 'none' : after.lane
    const isAnswer = lane === 'answer' && !this.isOrdered && startedAt >= this.#heldUntil
    if (nextAttemptAt !== undefined && (this.isOrdered || lane === 'hold')) this.#hold(nextAttemptAt, task)
    if (lane === 'hold') this.#ramp = 1
    else if (isAnswer) this.#ramp = rampedUp(this.#ramp) ?? Infinity
  }

  /** The causes that keep its tasks from starting, besides holds and its own concurrency. */
  bounds(cost: Cost | undefined, now: number): Pick<TaskStanding, 'ramp' | 'rateOpensAt' | 'shared'> {
    const ramp = this.#ramp === Infinity ? undefined : this.#ramp
    const rateOpensAt = this.#limits.perSecond === undefined ? undefined : this.#rateOpensAt()
    const shared = this.#shared && {
      running: this.#shared.isBounded ? this.#shared.running : undefined,
      opensAt: this.#shared.opensAt(cost, now),
    }
    return { ramp, rateOpensAt, shared }
  }

  toRecord(now: number): LaneRecord {
    const { kind, category, key, isPaused, running } = this
    const isOwn = this.#heldUntil >= (this.#shared?.heldUntil ?? 0)
    const heldUntil = isOwn ? this.#heldUntil : (this.#shared?.heldUntil ?? 0)
    const isHeld = heldUntil > now
    return {
      kind,
      category,
      key,
      isPaused,
      running,
      limits: this.#limits,
      heldUntil: isHeld ? heldUntil : undefined,
      heldBy: isHeld ? (isOwn ? this.#heldBy : this.#shared?.heldBy) : undefined,
      blockedBy: this.letterBefore(undefined),
      shared: this.#shared?.toRecord(now),
    }
  }

  /** Ends the hold of an ordered lane whose head waits no more, so that the next one can go on. */
  freeHead(task: string): void {
    if (!this.isOrdered || this.#heldBy !== task) return
    this.#heldUntil = -Infinity
    this.#heldBy = undefined
  }

  #hold(until: number, task: string): void {
    if (until < this.#heldUntil) return
    this.#heldUntil = until
    this.#heldBy = task
  }

  get #ownOpensAt(): number {
    return Math.max(this.#heldUntil, this.#rateOpensAt())
  }

  /** One second's worth may start at once, the rest evenly. */
  #rateOpensAt(): number {
    const { perSecond } = this.#limits
    if (perSecond === undefined) return -Infinity
    const ahead = ((Math.max(1, perSecond) - 1) * 1000) / perSecond
    // Times this large lose fractions. A hair less keeps that from costing a millisecond.
    return Math.ceil(this.#evenlyUntil - ahead - 0.01)
  }
}
