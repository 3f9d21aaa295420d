import { isDeepStrictEqual } from 'node:util'
import type { Lane, LaneLimits, LaneRecord, Outcome, TaskRecord } from '../store.js'
import type { MemoryHeap } from './heap.js'
import { type MemoryTask, readyHeap } from './task.js'

/** From here on a lane that was held is as free as before. */
const FULL_ALLOWANCE = 1024

/** What takes turns: a lane with a key, or all lanes without one. Holds those that have ready tasks. */
export type Turn = Set<MemoryLane>

/** One lane of the memory store: its ready tasks, and whether another one may start. */
export class MemoryLane implements Lane {
  readonly kind: string
  readonly category: string
  readonly key: string
  readonly turn: Turn
  readonly ready: MemoryHeap<MemoryTask> = readyHeap()
  /** Ready tasks that must run alone. */
  readonly alone: MemoryHeap<MemoryTask> = readyHeap()
  isPaused: boolean
  running = 0
  #lastSubmittedAt = -Infinity
  #limits: LaneLimits
  #heldUntil = -Infinity
  /** How many may run at once after a hold. */
  #allowance = Infinity
  /** When the starts so far would have been, had they come evenly: what a rate is measured by. */
  #evenlyUntil = 0

  constructor({ kind, category, key }: Lane, turn: Turn, isPaused: boolean, limits: LaneLimits) {
    this.kind = kind
    this.category = category
    this.key = key
    this.turn = turn
    this.isPaused = isPaused
    this.#limits = limits
  }

  /** Whether a task that waits for its time keeps its place at the head, and with it all others. */
  get isOrdered(): boolean {
    return this.#limits.isOrdered === true
  }

  /** When a task counts as submitted, unless it says so itself: if the lane is ordered, after all that were. */
  submittedAt(now: number): number {
    return this.isOrdered ? Math.max(now, this.#lastSubmittedAt + 1) : now
  }

  /** A task is new in it. */
  added({ submittedAt }: TaskRecord): void {
    this.#lastSubmittedAt = Math.max(this.#lastSubmittedAt, submittedAt)
  }

  /** Whether one that must run alone goes before all others. */
  get isBlocked(): boolean {
    return this.isOrdered && this.alone.peek() !== undefined
  }

  /** Whether fewer run than may, so that only time can keep it closed. */
  get hasRoom(): boolean {
    return !this.isPaused && this.running < Math.min(this.#allowance, this.#limits.concurrency ?? Infinity)
  }

  /** Whether the end of one of its tasks can let another one start. */
  get isBounded(): boolean {
    return this.#allowance !== Infinity || this.#limits.concurrency !== undefined
  }

  /** From when on hold and rate let a task start. */
  get opensAt(): number {
    return Math.max(this.#heldUntil, this.#rateOpensAt())
  }

  isOpen(now: number): boolean {
    return this.hasRoom && this.opensAt <= now
  }

  /** A rate begins with a second's worth. */
  limit(limits: LaneLimits): void {
    if (isDeepStrictEqual(this.#limits, limits)) return
    this.#limits = limits
    this.#evenlyUntil = 0
  }

  /** A task of it begins to run. */
  start(now: number): void {
    this.running++
    const { perSecond } = this.#limits
    if (perSecond !== undefined) this.#evenlyUntil = Math.max(this.#evenlyUntil, now) + 1000 / perSecond
  }

  /** A task of it runs no more. */
  end(startedAt: number, outcome: Outcome, now: number): void {
    this.running--
    if ('delayMs' in outcome && (this.isOrdered || outcome.type === 'deferred'))
      this.#heldUntil = Math.max(this.#heldUntil, now + outcome.delayMs)
    if (outcome.type === 'deferred') {
      this.#allowance = 1
    } else if (isAnswer(outcome) && !this.isOrdered && startedAt >= this.#heldUntil && this.#allowance !== Infinity) {
      // One more for each that ends: from round to round that doubles.
      this.#allowance = this.#allowance < FULL_ALLOWANCE ? this.#allowance + 1 : Infinity
    }
  }

  toRecord(now: number): LaneRecord {
    const { kind, category, key, isPaused, running } = this
    return {
      kind,
      category,
      key,
      isPaused,
      running,
      limits: this.#limits,
      heldUntil: this.#heldUntil > now ? this.#heldUntil : undefined,
    }
  }

  /** A second's worth may start at once, and then one whenever an even flow has made room for it. */
  #rateOpensAt(): number {
    const { perSecond } = this.#limits
    if (perSecond === undefined) return -Infinity
    const ahead = ((Math.max(1, perSecond) - 1) * 1000) / perSecond
    // Less a hair, so that what the fractions of times as large as these lose does not cost a millisecond.
    return Math.ceil(this.#evenlyUntil - ahead - 0.01)
  }
}

/** Whether a run says that the lane bears it: it was not rate limited, nor broken off. */
function isAnswer({ type }: Outcome): boolean {
  return type !== 'deferred' && type !== 'released' && type !== 'cancelled'
}
