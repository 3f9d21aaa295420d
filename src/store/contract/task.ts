import type { Verdict } from '../../policy/index.js'
import type { Outcome } from './claim.js'
import type { Lane } from './lane.js'
import type { AttemptEntry } from './ledger.js'

/**
 * The life of a task
 *
 *                      ┌─────── retry, deferred, released, lost, advanced ───────┐
 *                      ▼                                                          │
 *   enqueue ──► waiting (scheduled ──due──► ready) ──claim──► running ──settle──► succeeded
 *                      ▲                                                          skipped
 *                      └───────────────── redrive ─────────────────────────────── dead ──discard──┐
 *                                                                                 cancelled ◄─────┘
 *
 * Every accepted task is in exactly one of these states at every moment. A settlement writes the new state and the
 * ledger row in one transaction, so a task and its history never disagree.
 *
 * - **waiting**: entered by `enqueue`, and by a settlement that asks for another attempt. A task is *scheduled* until it
 *   is due, then *ready*. A claim first makes due tasks ready, then takes ready ones from lanes that are allowed, not
 *   held, not paused, below their limits and not behind an open gate (see `budget-store.ts`).
 * - **running**: entered by a claim, which issues a new token. A worker starts what it claims at once, so its death costs
 *   only the tasks that it had started. A settlement with a stale token changes nothing, and says so.
 * - **lost**: an event, not a state. When a worker's lease has expired, its running tasks go back to waiting, each with a
 *   `lost` row in the ledger and one more loss. A loss costs no attempt: the next attempt has the same number. The store
 *   knows no policies, so nobody has decided yet what follows: the task is claimed as `undecided`, and the worker that
 *   claims it asks the kernel and settles the answer before anything runs. From its second loss on, a task runs alone in
 *   its worker.
 *
 * - **advanced**: an item of a pipeline goes on to its next stage, which is another category of the same kind and key. The
 *   value that the stage returned is committed before the next stage starts. The worker keeps the item, running, if it
 *   asks to and the lane of the next stage is open; otherwise the item waits there.
 *
 * A person may end a task that does not run: as succeeded (`complete`) or dead (`fail`), in place of its handler. That is one
 * transaction, which cancels a waiting task first.
 *
 * A lease expires exactly at its end. Until somebody rescues its tasks they still belong to their worker, which may settle
 * them or renew the lease.
 */

/** Where a task is in its life. */
export type TaskStatus = 'waiting' | 'running' | 'succeeded' | 'skipped' | 'dead' | 'cancelled'

/** A task to be enqueued. */
export interface NewTask {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Part of its lane. Default: none. */
  readonly category?: string
  /** The key of its lane: a tenant, an account, a host. Default: none. */
  readonly key?: string
  /**
   * The quota under which its lane runs from now on, such as an account: lanes of the kind with the same quota share a
   * limit, that of `isPerQuota` limits. A rate limit that a task meets holds all of them. Needs a key. Default: the lane
   * stays under the quota that it has.
   */
  readonly quota?: string
  /** The caller's own id, for deduplication. Default: a generated id, ordered by time. */
  readonly id?: string
  /** JSON text. */
  readonly payload: string
  /** Higher goes first. Default 0. */
  readonly priority?: number
  /** Default: now. Among equals, the oldest goes first. */
  readonly submittedAt?: number
  /** The earliest time of its first attempt. Default: at once. */
  readonly runAt?: number
  /** Its cost for shared limits. Default: 1 in every bucket. */
  readonly cost?: Cost
  /** The span that enqueues it, as a W3C `traceparent`. Default: none. */
  readonly traceparent?: string
  /** A key that at most one task of its kind may have within a scope. */
  readonly unique?: UniqueKey
  /** The fields of its policy that are its own, as JSON text. A store only keeps them. Default: the policy of its kind. */
  readonly policy?: string
  /** A first attempt that was made elsewhere: the task is enqueued in the state that it led to, with its ledger row. */
  readonly tried?: { readonly outcome: Outcome; readonly attempt: AttemptEntry }
}

/** How much a task takes from each bucket of a shared limit, by the bucket's name. A bucket that it does not name: 1. */
export type Cost = Readonly<Record<string, number>>

/**
 * How long a task has its unique key: while it waits for its first attempt, until it has ended (dead is an end), or for a
 * time, whatever becomes of it.
 */
export type UniqueScope = 'waiting' | 'unfinished' | 'within'

/**
 * What happens to a task whose key another one has, its twin.
 *
 * - `keep`: the twin stays, and nothing is added.
 * - `replace`: the twin is cancelled, on record. If it runs, it is asked to end, and the new task waits until it has.
 * - `postpone`: the twin gets the payload and the due time of the new task, and nothing is added.
 * - `after`: the new task waits until the twin has ended. One waits: a newer task replaces it, and replaces a twin that has
 *   not begun.
 */
export type UniqueConflict = 'keep' | 'replace' | 'postpone' | 'after'

/** A key that at most one task of its kind may have within a scope. */
export interface UniqueKey {
  /** The key. Each kind has its own. */
  readonly key: string
  /** How long a task has the key. */
  readonly while: UniqueScope
  /** With `while: 'within'`: for how long, from when it is enqueued. */
  readonly withinMs?: number
  /** What happens if another task has the key. */
  readonly conflict: UniqueConflict
  /** With `conflict: 'postpone'`: how long after it was enqueued a task may be postponed at most. */
  readonly maxWaitMs?: number
}

/** What became of a task that was enqueued. */
export type EnqueueOutcome = 'created' | 'kept' | 'replaced' | 'postponed' | 'queued_after'

/** The answer to one enqueued task. */
export interface Enqueued {
  /** The id of the task that stands: the new one, or the one that was there. */
  readonly id: string
  /** Whether a task was added. */
  readonly isNew: boolean
  /**
   * What happened: `created`; `kept`, if the id was taken, or the unique key, and nothing changed; `replaced`, if the new
   * task stands in for another; `postponed`, if another one will run with this payload; `queued_after`, if the new task
   * waits for another one to end.
   */
  readonly outcome: EnqueueOutcome
  /** Where the task is that was there, if none was added. Absent if that has been pruned, and still has its key. */
  readonly status?: TaskStatus
  /** Since when it is there, in milliseconds since the epoch. */
  readonly since?: number
}

/** A task as it is on record. Times are whole milliseconds since the epoch, on the store's clock. */
export interface TaskRecord extends Lane {
  /** One of a kind in the whole store. */
  readonly id: string
  /** JSON text. */
  readonly payload: string
  /** The input of an item's current stage, as JSON text. Absent at its first stage, where the payload is the input. */
  readonly value?: string | undefined
  /** Where it is in its life. */
  readonly status: TaskStatus
  /** Higher goes first. */
  readonly priority: number
  /** Among equals, the oldest goes first. */
  readonly submittedAt: number
  /** When its attempts and its time to live begin to count: when it was enqueued, first due, or last redriven. */
  readonly startedAt: number
  /** When the next attempt is due; `undefined` while it runs and once it has ended. */
  readonly nextAttemptAt: number | undefined
  /** Whether it waits under a retry budget: once it is due, it is held until the budget lets it through. Default: false. */
  readonly isBudgeted?: boolean | undefined
  /** Whether it waits for the end of the task that has its unique key. It has no due time until then. Default: false. */
  readonly isQueued?: boolean | undefined
  /** Failed attempts. A success or a skip clears all counters and errors. */
  readonly attempts: number
  /** Waits that a rate limit asked for. They cost no attempt. */
  readonly deferrals: number
  /** How many workers died while running it. They cost no attempt. A redrive keeps this count. */
  readonly losses: number
  /** The last delay that the backoff asked for. */
  readonly previousDelayMs: number | undefined
  /** The class of the last verdict. */
  readonly errorClass: Verdict['class'] | undefined
  /** The code of the last verdict, such as `http_502`. */
  readonly errorCode: string | undefined
  /** Name and message of the last failure, bounded and redacted. */
  readonly errorMessage: string | undefined
  /** The group of its last failure. A redrive keeps it, until the task succeeds, is skipped or advances. */
  readonly group: string | undefined
  /** Why it is dead, was skipped or discarded, or succeeded without its result being kept. */
  readonly reason: string | undefined
  /** JSON text. */
  readonly result: string | undefined
  /** When it reached its present state. */
  readonly changedAt: number
  /** The span that enqueued it, as a W3C `traceparent`; `undefined` if no trace was active. */
  readonly traceparent?: string | undefined
  /** The unique key that it was enqueued with; it may have it no longer. Claims leave it out. */
  readonly unique?: { readonly key: string; readonly while: UniqueScope } | undefined
  /** The fields of its policy that are its own, as JSON text. Absent if its policy is that of its kind. */
  readonly policy?: string | undefined
  /** The operation that last moved it; `undefined` if none did, or if it was redriven without one since. Claims leave it out. */
  readonly operation?: string | undefined
}
