import type { LaneRecord, SharedLimits } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'
import type { KeptSharedLimit } from '../port/lane-port.js'
import type { After } from '../rules/after-settlement.js'
import {
  afterAnswer,
  afterRefusal,
  afterStart,
  afterUse,
  isAtRest,
  opensAt,
  paceAt,
  quotaRoom,
  type SharedState,
} from '../rules/shared-limit.js'

/** The part of an attempt's end that concerns its lane. */
export type LaneEnd = Pick<After, 'lane' | 'nextAttemptAt'>

/** A limit that several lanes of the memory store share. */
export class MemorySharedLimit {
  /** How many tasks of all its lanes run. */
  running = 0
  /** The name of the quota that it is the limit of. */
  readonly quota: string | undefined
  #limits: SharedLimits
  #state: SharedState

  constructor({ limits, state }: KeptSharedLimit, quota?: string) {
    this.quota = quota
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

  /** How many of its tasks may start now, at a cost of 1. */
  room(now: number): number {
    return quotaRoom(this.#limits, this.#state, this.running, now)
  }

  /** Whether it is as it would be made again. */
  isAtRest(now: number): boolean {
    return isAtRest(this.#limits, this.#state, now)
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
    const { quota } = this
    return { limits: this.#limits, pace: paceAt(this.#state, now), ...(quota !== undefined && { quota }) }
  }
}
