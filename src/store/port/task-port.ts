import type { By } from '../contract/ledger.js'
import type { NewTask } from '../contract/task.js'
import type { ArrangedAs, Arrangement } from '../rules/arrange.js'
import type { TaskPlace } from '../rules/cursor.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import type { EndByHand } from '../rules/operator-acts.js'

/** A task that is an item of a run. */
export interface Item {
  readonly id: string
  readonly run: string
  readonly stage: string
  /** When it reached its present state. */
  readonly changedAt: number
}

/** A task that waits or runs. */
export interface UnfinishedTask {
  readonly id: string
  readonly isRunning: boolean
  /** Whether an attempt has begun since it was enqueued or last redriven. */
  readonly hasBegun: boolean
}

/** The store's clock. */
export interface ClockPort {
  now(): number
}

/** The audit log. */
export interface AuditPort {
  append(record: string, now: number): void
}

/** The primitives of tasks. */
export interface TaskPort {
  /** Adds tasks. Returns of each whether it is new. */
  enqueue(tasks: readonly NewTask[], now: number): readonly boolean[]
  /** Gives dead tasks fresh attempts; as part of an operation, those of its set. Returns the ids that it moved. */
  redrive(ids: readonly string[], by: By, now: number, part?: PartOfOperation): string[]
  /** Gives up dead tasks that are no items; as part of an operation, those of its set. Returns the ids that it changed. */
  discard(ids: readonly string[], by: By, now: number, part?: PartOfOperation): string[]
  /** Ends waiting tasks, and asks running ones to end. Returns the ids of both. */
  cancel(ids: readonly string[], by: By | undefined, now: number): string[]
  /** Cancels those of these tasks that wait, off the record: something else becomes of them in the same transaction. */
  withdraw(ids: readonly string[], now: number): void
  /** Gives tasks that have ended the end that a person says, on record. Returns the ids of those that `isToEndAs` says. */
  finish(ids: readonly string[], end: EndByHand, by: By, now: number): string[]
  /** Deletes tasks that `isRemovable` says, with their history and their steps. Returns their ids. */
  remove(ids: readonly string[], now: number): string[]
  /** Gives up waiting tasks that have not changed since, without an attempt, but for those in paused lanes. Returns their ids. */
  expire(tasks: readonly TaskPlace[], now: number): string[]
  /**
   * Changes when tasks that wait are due, and their priority, as `arranged` says, each on record. Leaves all others alone. Returns the
   * ids that it changed.
   */
  arrange(
    tasks: readonly Arrangement[],
    as: ArrangedAs,
    by: By,
    now: number,
    operation: string | undefined,
  ): readonly string[]
  /** Replaces the payload of a task that waits or is dead and is no item. Returns whether there was one. */
  edit(id: string, payload: string, by: By, now: number): boolean
  /** Those tasks that wait or run. */
  unfinished(ids: readonly string[]): readonly UnfinishedTask[]
  /** Those tasks that are items of runs, as their lanes tell, by id. */
  itemsOf(ids: readonly string[]): ReadonlyMap<string, Item>
}
