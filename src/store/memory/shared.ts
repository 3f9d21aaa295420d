import type { LaneRecord, SharedLimits } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'
import type { KeptSharedLimit } from '../port/lane-port.js'
import type { After } from '../rules/after-settlement.js'
import {
  afterAnswer,
  afterRefusal,
  afterStart,
  afterUse,
  opensAt,
  paceAt,
  type SharedState,
} from '../rules/shared-limit.js'

/** The part of an attempt's end that concerns its lane. */
export type LaneEnd = Pick<After, 'lane' | 'nextAttemptAt'>

/** A limit that several lanes of the memory store share. */
export class MemorySharedLimit {
  /** How many tasks of all its lanes run. */
  running = 0
  #limits: SharedLimits
  #state: SharedState

  constructor({ limits, state }: KeptSharedLimit) {
    this.#limits = limits
    this.#state = state
  }

  get limits(): SharedLimits {
    return this.#limits
  }

  /** Whether another task may run as far as numbers go. */
  get hasRoom(): boolean {
    return this.running < (this.#limits.concurrency ?? Infinity)
  }

  /** Whether the end of a task can let another one start. */
  get isBounded(): boolean {
    return this.#limits.concurrency !== undefined
  }

  get state(): SharedState {
    return this.#state
  }

  get heldUntil(): number {
    return this.#state.heldUntil
  }

  /** The task whose refusal holds it. */
  get heldBy(): string | undefined {
    return this.#state.heldBy
  }

  /** When hold, buckets and pace let a task start. */
  opensAt(cost: Cost | undefined, now: number): number {
    return opensAt(this.#limits, this.#state, cost, now)
  }

  change({ limits, state }: KeptSharedLimit): void {
    this.#limits = limits
    this.#state = state
  }

  start(cost: Cost | undefined, now: number): void {
    this.running++
    this.#state = afterStart(this.#limits, this.#state, cost, now)
  }

  /** Counts a task that has ended, and learns from how it did. */
  end(task: string, began: number, { lane, nextAttemptAt = began }: LaneEnd, now: number): void {
    this.running--
    if (lane === 'hold') this.#state = afterRefusal(this.#state, task, began, nextAttemptAt, now)
    if (lane === 'answer') this.#state = afterAnswer(this.#state, now)
  }

  /** Corrects the buckets by what an attempt really took. */
  use(cost: Cost | undefined, used: Cost, now: number): void {
    this.#state = afterUse(this.#limits, this.#state, cost, used, now)
  }

  toRecord(now: number): LaneRecord['shared'] {
    return { limits: this.#limits, pace: paceAt(this.#state, now) }
  }
}
