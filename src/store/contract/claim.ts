import type { GiveUpReason } from '../../policy/index.js'
import type { GateChange } from './budget-store.js'
import type { AttemptEntry } from './ledger.js'
import type { Cost, NewTask, TaskRecord } from './task.js'
import type { WorkerReport } from './worker-store.js'

/** A worker's request for tasks. */
export interface ClaimRequest {
  /** The worker that asks. Its lease covers the tasks that it gets. */
  readonly worker: string
  /** The lease runs this long from now. A claim that gives nothing, and so need not write, leaves at least half of it. */
  readonly leaseMs: number
  /** The maximum number of tasks, over all rooms. */
  readonly limit: number
  /**
   * Where the tasks may come from. Rooms are served in the order given; the order of tasks is exact within a room, and a
   * task belongs to the first room that names it. No rooms, no work.
   */
  readonly rooms: readonly Room[]
  /** Whether the worker has nothing else running, so that it can take a task that must run alone. */
  readonly isIdle: boolean
}

/** Kinds and categories that share a number of free places in a worker. */
export interface Room {
  /** No kinds, no work. */
  readonly kinds: readonly string[]
  /** Default: all categories. An empty list means no work. */
  readonly categories?: readonly string[]
  /** The maximum number of tasks from this room. Default: the limit of the whole claim. */
  readonly limit?: number
}

/** The answer to a claim. */
export interface Claim {
  /** The tasks to run, in their order. */
  readonly tasks: readonly ClaimedTask[]
  /** The store's clock at the claim. */
  readonly now: number
  /** When there may be more to claim: the next due time, the end of a hold, or the next start that a rate allows. */
  readonly nextAt: number | undefined
  /** Whether a task is ready that must run alone. An idle worker gets it before all others. */
  readonly isAloneWaiting: boolean
}

/** A task that now belongs to the worker, to be started at once. */
export interface ClaimedTask extends TaskRecord {
  /** Issued anew by each claim. A settlement has to present it. */
  readonly token: string
  /** Nothing of it is on record yet: neither an attempt, nor a redrive. */
  readonly isFirst: boolean
  /**
   * Its last attempt was lost, and nobody has decided yet what follows. This claim is for the decision, which is settled as
   * `retry` or `dead`; any other outcome ends an attempt like any other. If this worker dies too, the task goes back
   * unchanged and uncounted.
   */
  readonly isUndecided: boolean
  /** Whether steps of it are on record. */
  readonly hasSteps: boolean
}

/** The end of a claimed task's attempt. */
export interface Settlement {
  /** The id of the task. */
  readonly id: string
  /** The token that the claim issued. */
  readonly token: string
  /** The state that the task is to have next. */
  readonly outcome: Outcome
  /**
   * The ledger row. Absent where no attempt was made: then nothing is counted and no row is written. With the decision on a
   * lost attempt it is not an attempt either: its verdict, error, random and policy complete the `lost` row.
   */
  readonly attempt?: AttemptEntry
  /**
   * How much the attempt has spent, by bucket. It is added to the costs of its lane. Of the buckets of a shared limit, the
   * difference to the cost of the task is given back.
   */
  readonly used?: Cost
  /** Tasks that follow if the task dies by this: enqueued in the same transaction, and not at all if this is stale. */
  readonly ifDead?: readonly NewTask[]
}

/** The outcome of an attempt for its task. Delays count from the store's now; due times are rounded up to milliseconds. */
export type Outcome =
  /** `reason` says why its result was not kept. */
  | { readonly type: 'succeeded'; readonly result?: string; readonly reason?: string }
  | { readonly type: 'skipped'; readonly reason: string }
  /**
   * The item goes on to the category `to`, with fresh attempts, deferrals, losses and time to live. `keep` asks to go on at
   * once: the answer is `kept` if the lane there is open and no ready task comes before this one. Otherwise it waits there.
   */
  | {
      readonly type: 'advanced'
      readonly to: string
      readonly value: string
      readonly keep: boolean
      readonly cost?: Cost
    }
  /** Counts as an attempt. A delay that came from the backoff is remembered for the next one. */
  | { readonly type: 'retry'; readonly delayMs: number; readonly isBackoff: boolean }
  /**
   * A rate limit: costs no attempt, and holds the lane for the same time. Afterwards the lane starts with one task. Each
   * task that starts after the hold and ends without another one lets one more run, so the number doubles every round.
   */
  | { readonly type: 'deferred'; readonly delayMs: number }
  /** The handler asked to be called later, or its worker could not renew its lease. Nothing failed, and nothing is counted. */
  | { readonly type: 'later'; readonly delayMs: number }
  | { readonly type: 'dead'; readonly reason: GiveUpReason }
  | { readonly type: 'cancelled' }
  /** Its worker was blocked, or suspended, for a whole lease. Counts as a loss, on which the next claim decides: as if the worker had died. */
  | { readonly type: 'lost' }
  /** Handed back uncounted, as on a shutdown. */
  | { readonly type: 'released' }

/**
 * The answer to one settlement. `stale`: the task belonged to another worker by then, and nothing changed. `kept`: the item
 * has advanced and still belongs to the worker, under a new token, from `now` on the store's clock. An advance that is
 * repeated, because its answer was lost, gets the same answer once more, also if the item was cancelled since; until it is
 * claimed again, or settled by a worker, by hand or at the end of its time to live.
 *
 * `locked`: another transaction holds the task, and may do so for long. Nothing changed for this one; the others of the call
 * are on record. Ask again, for this one alone.
 *
 * `isStopped`: this call has exceeded the failure budget of the item's run, so no more of its items may start. Where several
 * processes work on a run, a check may notice that before any call does.
 *
 * `gates`, on the first answer of a call: gates of failure budgets that the call has opened or closed.
 */
export type Settled = { readonly isStopped?: boolean; readonly gates?: readonly GateChange[] } & (
  | { readonly result: 'settled' | 'stale' }
  | { readonly result: 'kept'; readonly token: string; readonly now: number }
  | { readonly result: 'locked'; readonly failure: Error }
)

/** The two answers, made once: a busy worker gets tens of thousands of them a second. */
export const SETTLED: Settled = Object.freeze({ result: 'settled' })
export const STALE: Settled = Object.freeze({ result: 'stale' })

/** A worker's heartbeat, with its report. */
export interface Beat extends WorkerReport {
  /** The name of the worker. */
  readonly worker: string
  /** The lease runs this long from now. */
  readonly leaseMs: number
}

/** The answer to a heartbeat. */
export interface Heartbeat {
  /** Tokens of the worker's tasks that somebody asked to cancel, repeated until they are settled. */
  readonly cancelled: readonly string[]
  /** How many tasks were rescued from workers that died. */
  readonly rescued: number
}
