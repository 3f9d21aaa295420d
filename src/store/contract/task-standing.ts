import type { BudgetScope } from './budget-store.js'
import type { LaneRecord } from './lane.js'
import type { TaskRecord } from './task.js'

/** Where a task stands: in the queue of its lane, or with a worker. */
export interface TaskStanding {
  /** The store's clock. */
  readonly now: number
  /** The task. */
  readonly task: TaskRecord
  /** Its lane. */
  readonly lane: LaneRecord
  /** Of a waiting task that is due: how many ready tasks of its lane come before it, counted up to the limit that was asked. */
  readonly before: number | undefined
  /** Of a running task: its worker, and until when its lease runs. */
  readonly worker: { readonly name: string; readonly until: number | undefined } | undefined
  /** Its last attempt was lost, and nobody has decided yet what follows. */
  readonly isUndecided: boolean
  /** Somebody asked to cancel it while it was running. */
  readonly isToBeCancelled: boolean
  /** The retry budget that it waits under, until it is due and then until the budget lets it through. */
  readonly retryBudget: BudgetScope | undefined
  /** In an ordered lane: the id of another task that waits under a retry budget, and that all others wait behind. */
  readonly behindRetry: string | undefined
  /** In an ordered lane: the id of the dead letter before it that blocks the lane. */
  readonly blockedBy: string | undefined
  /** Another task that has its unique key by now: one that it waits for, or, if it is dead, one that took its place. */
  readonly twin?: string | undefined
  /** After a rate limit: how many tasks of its lane may run at once. `undefined`: its limits alone decide. */
  readonly ramp: number | undefined
  /** When the rate of its lane lets the next task start; `undefined` if it has no rate. */
  readonly rateOpensAt: number | undefined
  /**
   * The limit that its lane shares: how many of its tasks run, if their number is limited, and when hold, rates and pace let
   * this task start.
   */
  readonly shared: { readonly running: number | undefined; readonly opensAt: number } | undefined
}

/** Tells where tasks stand. */
export interface StandingReader {
  /**
   * Where a task stands, whatever its status; `undefined` if there is none with that id. Counts up to `limit` tasks before
   * it, so its cost does not depend on the size of the store.
   */
  standing(id: string, limit: number): Promise<TaskStanding | undefined>
}
