import type { ClaimedTask } from '../store/internal.js'
import type { ClaimTimes } from './task-attempt.js'
import type { OwnPlaces, WorkKind } from './work-kind.js'

/** A task that the worker has, and that waits for a slot. */
export interface BufferedTask {
  readonly task: ClaimedTask
  readonly claim: ClaimTimes
}

/** Tasks are taken ahead for this time: a commit and a claim take a fraction of it, even on a busy machine. */
const AHEAD_MS = 250

/**
 * A stage after the first has more places for items that wait. While one batch from the stage before is being settled, the
 * next one runs; and where items wait in the store, a stage must be able to claim more than the stage before adds, or
 * they would never be fewer, and all that come have to wait behind them.
 */
const LATER_STAGE_FACTOR = 3

/** The weight of an item in the average of its stage. */
const WEIGHT = 1 / 16

/**
 * The places of one kind of work in a worker: slots for the tasks that run, and places for tasks that wait for a slot. Without
 * those a slot would stand idle for a commit between two tasks. There are only as many as are likely to get a slot soon:
 * tasks that wait behind slow calls are better left to other machines.
 */
export class OwnRoom {
  readonly kind: WorkKind
  readonly #places: OwnPlaces
  readonly #aheadFactor: number
  #slots = 0
  #buffer: BufferedTask[] = []
  /** How long tasks run on average; unknown until one has ended. */
  #averageMs = Infinity
  /** Whether its free slots are being filled: a handler that throws at once frees its slot meanwhile. */
  isFilling = false
  /** A rate limit was met, and the store has yet to hear of it: nothing starts until then. */
  isHeld = false
  /** How many tasks run. */
  running = 0
  /** How many items are to come from the stage before, once the store has answered. */
  expected = 0

  constructor(kind: WorkKind, places: OwnPlaces, isFirst: boolean) {
    this.#aheadFactor = isFirst ? 1 : LATER_STAGE_FACTOR
    this.kind = kind
    this.#places = places
    this.resize()
  }

  get hasSlot(): boolean {
    return this.running < this.#slots
  }

  get slots(): number {
    return this.#slots
  }

  /** The stage of a pipeline that it is the room of. */
  get stage(): string | undefined {
    return this.kind.stage
  }

  /** How many more tasks it can take, to run or to wait for a slot. */
  get places(): number {
    return Math.max(0, this.#slots + this.#ahead - this.running - this.expected - this.#buffer.length)
  }

  /** How many tasks may wait for a slot. Those of the next joint call are collected meanwhile. */
  get #ahead(): number {
    const soon = Math.ceil((this.#slots * AHEAD_MS) / Math.max(AHEAD_MS, this.#averageMs))
    const { tasksPerCall = 0 } = this.#places
    return Math.max(soon * this.#aheadFactor, tasksPerCall)
  }

  get isEmpty(): boolean {
    return this.running + this.expected + this.#buffer.length === 0
  }

  /** Changes how many calls are made at once. Default: as its code says. */
  resize(concurrency = this.#places.concurrency): void {
    const { tasksPerCall = 1, onResize } = this.#places
    this.#slots = concurrency * tasksPerCall
    onResize?.(concurrency)
  }

  /** A task has run for this time. */
  ended(durationMs: number): void {
    const average = this.#averageMs
    this.#averageMs = average === Infinity ? durationMs : average + (durationMs - average) * WEIGHT
  }

  add(task: BufferedTask): void {
    this.#buffer.push(task)
  }

  /** The next task for a free slot. */
  next(): BufferedTask | undefined {
    return this.hasSlot ? this.#buffer.shift() : undefined
  }

  /** Removes the tasks that wait for a slot and match. */
  remove(matches: (buffered: BufferedTask) => boolean = () => true): readonly BufferedTask[] {
    const [removed, kept]: [BufferedTask[], BufferedTask[]] = [[], []]
    for (const buffered of this.#buffer) (matches(buffered) ? removed : kept).push(buffered)
    this.#buffer = kept
    return removed
  }
}
