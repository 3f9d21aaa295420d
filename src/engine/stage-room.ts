import type { ClaimedTask } from '../store/internal.js'
import type { ClaimTimes } from './task-attempt.js'
import type { StagePlaces, WorkKind } from './work-kind.js'

/** An item that the worker has, and that waits for a slot. */
export interface BufferedItem {
  readonly task: ClaimedTask
  readonly claim: ClaimTimes
}

/** Items are taken ahead for this time: a commit and a claim take a fraction of it, even on a busy machine. */
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
 * The places of one stage in a worker: slots for the items that run, and places for items that wait for a slot. Without
 * those a slot would stand idle for a commit between two items. There are only as many as are likely to get a slot soon:
 * items that wait behind slow calls are better left to other machines.
 */
export class StageRoom {
  readonly name: string
  readonly kind: WorkKind
  readonly #places: StagePlaces
  readonly #aheadFactor: number
  #slots = 0
  #buffer: BufferedItem[] = []
  /** How long items run on average; unknown until one has ended. */
  #averageMs = Infinity
  /** Whether its free slots are being filled: a handler that throws at once frees its slot meanwhile. */
  isFilling = false
  /** A rate limit was met, and the store has yet to hear of it: nothing starts until then. */
  isHeld = false
  /** How many items run. */
  running = 0
  /** How many items are to come from the stage before, once the store has answered. */
  expected = 0

  constructor(kind: WorkKind, places: StagePlaces, isFirst: boolean) {
    this.name = places.name
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

  /** How many more items it can take, to run or to wait for a slot. */
  get places(): number {
    return Math.max(0, this.#slots + this.#ahead - this.running - this.expected - this.#buffer.length)
  }

  /** How many items may wait for a slot. A batch stage collects its next call meanwhile. */
  get #ahead(): number {
    const soon = Math.ceil((this.#slots * AHEAD_MS) / Math.max(AHEAD_MS, this.#averageMs))
    const { itemsPerCall = 0 } = this.#places
    return Math.max(soon * this.#aheadFactor, itemsPerCall)
  }

  get isEmpty(): boolean {
    return this.running + this.expected + this.#buffer.length === 0
  }

  /** Changes how many calls are made at once. Default: as its code says. */
  resize(concurrency = this.#places.concurrency): void {
    this.#slots = concurrency * (this.#places.itemsPerCall ?? 1)
  }

  /** An item has run for this time. */
  ended(durationMs: number): void {
    const average = this.#averageMs
    this.#averageMs = average === Infinity ? durationMs : average + (durationMs - average) * WEIGHT
  }

  add(item: BufferedItem): void {
    this.#buffer.push(item)
  }

  /** The next item for a free slot. */
  next(): BufferedItem | undefined {
    return this.hasSlot ? this.#buffer.shift() : undefined
  }

  /** Removes the items that wait for a slot and match. */
  remove(matches: (item: BufferedItem) => boolean = () => true): readonly BufferedItem[] {
    const [removed, kept]: [BufferedItem[], BufferedItem[]] = [[], []]
    for (const item of this.#buffer) (matches(item) ? removed : kept).push(item)
    this.#buffer = kept
    return removed
  }
}
