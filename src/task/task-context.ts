import type { ClaimedTask, OnceOptions, Store } from '../store/index.js'
import { LazyAbort } from '../time/index.js'

/** A task as its handler sees it. Its `signal` aborts when its time is up, it is cancelled, or its worker stops. */
export class TaskContext extends LazyAbort {
  /** The task's: the natural key to pass on to the other side. */
  readonly id: string
  /** As it was enqueued; empty if it has none. */
  readonly category: string
  /** The key of its lane: a tenant, an account, a host; empty if it has none. */
  readonly key: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** When it was enqueued, in milliseconds since the epoch, unless it was enqueued with another time. */
  readonly submittedAt: number
  /** When it began to count its attempts: when it was enqueued, or last redriven. */
  readonly startedAt: number
  /** Proves that this run still holds the task: give it to a store's `once`. */
  readonly fence: { readonly id: string; readonly token: string }

  constructor(
    task: ClaimedTask,
    private readonly store: Pick<Store, 'once'>,
  ) {
    super()
    this.id = task.id
    this.category = task.category
    this.key = task.key
    // The attempt that was lost has been counted already.
    this.attempt = task.isUndecided ? task.attempts : task.attempts + 1
    this.submittedAt = task.submittedAt
    this.startedAt = task.startedAt
    this.fence = { id: task.id, token: task.token }
  }

  /**
   * Runs a function once per key, in a transaction of the task's store, for as long as this run holds the task. What it
   * writes through the transaction exists exactly once, however often the task runs.
   *
   * ```ts
   * await task.once('invoice-42', (db: Database) => db.prepare('INSERT INTO invoices (id) VALUES (?)').run(42).changes)
   * ```
   */
  once<T>(key: string, work: (tx: never) => T, { params }: Pick<OnceOptions, 'params'> = {}): Promise<Awaited<T>> {
    return this.store.once(key, work, { params, fence: this.fence })
  }
}
