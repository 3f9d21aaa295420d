import type { StepOptions, StepWork } from '../engine/internal.js'
import type { Cost, OnceOptions, Storable } from '../store/internal.js'
import type { KeptAsJson } from '../task/internal.js'

/** An item as the code of a stage sees it. */
export interface StageContext {
  /** The item's own id, or its position in the source as text. Unique within the run. */
  readonly id: string
  /** The id of the run. */
  readonly run: string
  /** The name of the stage. */
  readonly stage: string
  /** The number of this attempt at this stage, from 1. Neither a deferral nor the death of a worker raises it. */
  readonly attempt: number
  /** Aborts when the time of the attempt is up, the item is cancelled, or its worker stops or loses its lease. */
  readonly signal: AbortSignal
  /**
   * Runs a function once per key, in a transaction of the store, for as long as this attempt holds the item: everything it
   * writes through the transaction is written exactly once, however often the stage runs.
   */
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options?: Pick<OnceOptions, 'params'>): Promise<Awaited<T>>
  /**
   * Runs a function as a step of this stage: once it has succeeded, its result is on record, and no later attempt at the stage runs
   * it again. See the `step` of a task. On record its name is `<stage>/<name>`.
   */
  step<T>(name: string, work: StepWork<T>, options?: StepOptions): Promise<KeptAsJson<T>>
  /** Tells how far the attempt has come: a number from 0 to 1, and a text. */
  progress(fraction: number, text?: string): void
  /** Adds a line to the log of the attempt, which stays in the ledger if it fails. */
  log(text: string): void
  /**
   * Reports how much the attempt actually took from the buckets of the stage's rates, as the response says. An attempt that
   * makes several calls reports each: the amounts are added up.
   */
  used(cost: Cost): void
}

/** The items of one call of a batch stage, which may belong to several runs. */
export interface BatchContext {
  /** The name of the stage. */
  readonly stage: string
  /** The id of the call. The ledger names it with each item. */
  readonly call: string
  /** The items, in the order of the inputs. */
  readonly items: readonly Pick<StageContext, 'id' | 'run' | 'attempt'>[]
  /** Aborts when the time of the call is up, or its worker stops or loses its lease. */
  readonly signal: AbortSignal
  /**
   * Reports how much the call actually took from the buckets of the stage's rates. Its items share that. Amounts are added
   * up, also over the calls that an item was part of because a batch was halved.
   */
  used(cost: Cost): void
}
