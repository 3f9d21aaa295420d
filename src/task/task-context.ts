import type { ActiveAttempt } from '../attempt/index.js'
import { type AttemptRecorder, type StepOptions, type StepWork, validCost } from '../engine/internal.js'
import {
  batchOf,
  type ClaimedTask,
  type Cost,
  type OnceOptions,
  type SlotRecord,
  type Storable,
  type StoreContract,
} from '../store/internal.js'
import { type TaskBatch, taskBatch } from './batches.js'
import type { KeptAsJson } from './json-type.js'
import { TaskQueue } from './task-queue.js'

/** A task as its handler sees it. It can be taken apart and copied: `{ signal, once }`, `{ ...task }`. */
export interface TaskContext {
  /** The task's id: use it as the idempotency key for services that you call. */
  readonly id: string
  /** As it was enqueued; empty if it has none. */
  readonly category: string
  /** The key of its lane, such as a tenant, an account or a host; empty if it has none. */
  readonly key: string
  /** The number of this attempt, from 1. Neither a deferral nor the death of a worker raises it. */
  readonly attempt: number
  /** How many workers died while running this task. Above 0, an earlier run may have stopped at any point. */
  readonly losses: number
  /** When it was submitted, in milliseconds since the epoch. */
  readonly submittedAt: number
  /** When its attempts began to count: when it was enqueued, first due, or last redriven. */
  readonly startedAt: number
  /** The schedule that it is a run of; `undefined` for other tasks. */
  readonly schedule: string | undefined
  /**
   * The local time that its slot is for, such as `2027-03-28T02:30:00`, in the time zone of its schedule. The clocks of
   * that day may not have shown it: see `scheduledFor`.
   */
  readonly slot: string | undefined
  /** Its slot, in milliseconds since the epoch. A report about a day belongs to this time, whenever it runs. */
  readonly scheduledFor: number | undefined
  /** Whether it runs because its slot was missed, or backfilled. */
  readonly isCatchUp: boolean
  /** The batch that it belongs to, to which it may add tasks; `undefined` for other tasks. */
  readonly batch: TaskBatch | undefined
  /** Proves that this attempt still holds the task. Pass it to a store's `once`. */
  readonly fence: { readonly id: string; readonly token: string }
  /** Aborts when the attempt times out, the task is cancelled, or its worker stops or loses its lease. */
  readonly signal: AbortSignal
  /**
   * Runs a function once per key, in a transaction of the task's store, for as long as this attempt holds the task.
   * Everything it writes through the transaction is written exactly once, however often the task runs.
   *
   * ```ts
   * await task.once('invoice-42', (db: Database) => db.prepare('INSERT INTO invoices (id) VALUES (?)').run(42).changes)
   * ```
   */
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options?: Pick<OnceOptions, 'params'>): Promise<Awaited<T>>
  /**
   * Runs a function as a step: once it has succeeded, its result is on record, and no later attempt at the task runs it again.
   * A step has a name of its own, and its own attempts and delays.
   *
   * ```ts
   * const charge = await task.step('charge', ({ key, signal }) => pay(order, { key, signal }), { policy: { attempts: 5 } })
   * ```
   *
   * It may run more than once before its result is on record: after a failure, and after its worker died. Pass its `key` on, so
   * that the other side can tell. A step that is given up rejects with a `StepFailedError`, and ends the task with it.
   */
  step<T>(name: string, work: StepWork<T>, options?: StepOptions): Promise<KeptAsJson<T>>
  /**
   * Tells how far this attempt has come: a number from 0 to 1, and a text. `redrive task show` shows it, from the next heartbeat
   * of the worker on. Costs no write of its own.
   *
   * ```ts
   * task.progress(page / pages, `page ${page} of ${pages}`)
   * ```
   */
  progress(fraction: number, text?: string): void
  /**
   * Adds a line to the log of this attempt. It goes along with the heartbeats of the worker, and stays in the ledger if the attempt
   * fails, or its worker dies. The last 100 lines are kept, and 16 KB of them.
   */
  log(text: string): void
  /**
   * Reports what this attempt has spent, by names of your own: tokens, dollars, pages. `redrive cost` adds it up, whatever
   * becomes of the attempt. One that makes several calls reports each: the amounts are added up.
   *
   * ```ts
   * task.used({ tokens: answer.usage.total_tokens })
   * ```
   */
  used(cost: Cost): void
}

/** The context of an attempt at a task. */
export function taskContext(
  task: ClaimedTask,
  attempt: ActiveAttempt,
  recorder: AttemptRecorder,
  store: StoreContract,
  slot?: SlotRecord,
): TaskContext {
  return new AttemptContext(task, attempt, recorder, store, slot)
}

class AttemptContext implements TaskContext {
  /**
   * A signal costs more than everything else here, so it is made when a handler first reads it. The property is each
   * context's own, since contexts are copied; its getter is shared, since a getter of its own costs a microsecond.
   */
  static readonly #SIGNAL: PropertyDescriptor & ThisType<AttemptContext> = {
    enumerable: true,
    configurable: true,
    get() {
      return this.#attempt.signal
    },
  }

  // Declared only: a field that is defined first and assigned then takes twice as long.
  declare readonly id: string
  declare readonly category: string
  declare readonly key: string
  declare readonly attempt: number
  declare readonly losses: number
  declare readonly submittedAt: number
  declare readonly startedAt: number
  declare readonly schedule: string | undefined
  declare readonly slot: string | undefined
  declare readonly scheduledFor: number | undefined
  declare readonly isCatchUp: boolean
  declare readonly batch: TaskBatch | undefined
  declare readonly fence: { readonly id: string; readonly token: string }
  declare readonly signal: AbortSignal
  declare readonly once: TaskContext['once']
  declare readonly step: TaskContext['step']
  declare readonly progress: TaskContext['progress']
  declare readonly log: TaskContext['log']
  declare readonly used: TaskContext['used']
  readonly #attempt: ActiveAttempt

  constructor(
    task: ClaimedTask,
    attempt: ActiveAttempt,
    recorder: AttemptRecorder,
    store: StoreContract,
    slot: SlotRecord | undefined,
  ) {
    this.id = task.id
    this.category = task.category
    this.key = task.key
    this.attempt = attempt.number
    this.losses = task.losses
    this.submittedAt = task.submittedAt
    this.startedAt = task.startedAt
    this.schedule = slot?.schedule
    this.slot = slot?.localTime
    this.scheduledFor = slot?.slot
    this.isCatchUp = slot?.isCatchUp === true
    const batch = batchOf(task.id)
    this.batch = batch === undefined ? undefined : taskBatch(batch, task.id, store, new TaskQueue(store))
    const fence = { id: task.id, token: task.token }
    this.fence = fence
    this.once = <T>(key: string, work: (tx: never) => T & Storable<T>, { params }: Pick<OnceOptions, 'params'> = {}) =>
      store.once<T>(key, work, { params, fence })
    // The result comes from JSON: the function's own, or that of an earlier attempt.
    this.step = <T>(name: string, work: StepWork<T>, options?: StepOptions) =>
      recorder.step(name, work, options) as Promise<KeptAsJson<T>>
    this.progress = (fraction, text) => recorder.progress(fraction, text)
    this.log = text => recorder.log(text)
    this.used = cost => recorder.used(validCost(cost, { from: 'used()', task: task.kind }))
    this.#attempt = attempt
    Object.defineProperty(this, 'signal', AttemptContext.#SIGNAL)
  }
}
