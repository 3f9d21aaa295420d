import type { IdempotencyStore } from '../idempotency/index.js'
import type { GiveUpReason, Verdict } from '../policy/index.js'
import type { BudgetStore, GateChange } from './budget-store.js'
import type { FailureGroup, GroupStore } from './group-store.js'
import type { LaneRuleReader } from './lane-rule.js'
import type { OperationStore } from './operation-store.js'
import type { PrunableReader } from './prunable.js'
import type { RetryYield } from './retry-yield.js'
import type { RunStore } from './run-store.js'
import type { StandingReader } from './task-standing.js'
import type { WorkerReader, WorkerReport } from './worker-store.js'

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
 * A lease expires exactly at its end. Until somebody rescues its tasks they still belong to their worker, which may settle
 * them or renew the lease.
 */

/** Where a task is in its life. */
export type TaskStatus = 'waiting' | 'running' | 'succeeded' | 'skipped' | 'dead' | 'cancelled'

/**
 * The unit of scheduling: all tasks with the same kind, category and key. Holds, pauses, limits and turns apply per lane.
 * An empty category or key means that there is none.
 */
export interface Lane {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** A part of the kind, such as a stage. */
  readonly category: string
  /** A tenant, an account, a host. */
  readonly key: string
}

/** A task to be enqueued. */
export interface NewTask {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Part of its lane. Default: none. */
  readonly category?: string
  /** The key of its lane: a tenant, an account, a host. Default: none. */
  readonly key?: string
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
  /** A first attempt that was made elsewhere: the task is enqueued in the state that it led to, with its ledger row. */
  readonly tried?: { readonly outcome: Outcome; readonly attempt: AttemptEntry }
}

/** How much a task takes from each bucket of a shared limit, by the bucket's name. A bucket that it does not name: 1. */
export type Cost = Readonly<Record<string, number>>

/** The answer to one enqueued task. `isNew` is false if the id was taken: then nothing changed. */
export interface Enqueued {
  /** The id of the task. */
  readonly id: string
  /** Whether the task was added. */
  readonly isNew: boolean
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
  /** The operation that last moved it; `undefined` if none did, or if it was redriven without one since. Claims leave it out. */
  readonly operation?: string | undefined
}

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
  /** How much the attempt really took from the buckets of a shared limit. The difference to its cost is given back. */
  readonly used?: Cost
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
  /** The handler asked to be called later. Nothing failed, and nothing is counted. */
  | { readonly type: 'later'; readonly delayMs: number }
  | { readonly type: 'dead'; readonly reason: GiveUpReason }
  | { readonly type: 'cancelled' }
  /** Handed back uncounted, as on a shutdown. */
  | { readonly type: 'released' }

/** An attempt as the ledger keeps it: enough to recompute its decision. */
export interface AttemptEntry {
  /** Its number, from 1. */
  readonly attempt: number
  /** When it began. */
  readonly startedAt: number
  /** When it ended. */
  readonly endedAt: number
  /** The worker that made it. */
  readonly worker: string
  /** The verdict on its failure. Absent if it did not fail. */
  readonly verdict?: Verdict
  /** Name and message of the failure, bounded and redacted. */
  readonly error?: string
  /** Where the code failed: a line for each frame, bounded and redacted. Only bugs have it where they fail as before. */
  readonly stack?: string
  /** The group of the failure, which is made when it is first seen. Counts only beside a verdict. */
  readonly group?: FailureGroup
  /** The random number that placed the delay within its jitter. */
  readonly random?: number
  /** The hash of the policy that decided. `policies` has the policy itself. */
  readonly policy?: string
  /** The version of the pipeline that ran it. */
  readonly version?: string
  /** The call of a batch stage that it was part of. */
  readonly call?: string
  /**
   * The id of its trace: 32 hexadecimal digits. A task that succeeds with nothing else on record is in the trace that
   * enqueued it. Its settlement leaves this out, so that it costs nothing, and its ledger has it all the same.
   */
  readonly trace?: string
  /** The version of the application, as its worker reported it. */
  readonly release?: string | undefined
}

/**
 * A row of the ledger. Rows never change, except that a `lost` row is completed by the decision on it. A `redriven`,
 * `discarded`, `undone` or `edited` row is not an attempt: its number is 0, its `worker` is the person who asked and its
 * `reason` is why. So is the `cancelled` row of a task that was cancelled while it waited.
 */
export interface LedgerRow extends Omit<AttemptEntry, 'group'> {
  /** Counts all rows of the task, from 1. */
  readonly sequence: number
  /** The category that the task was in: the stage of an item. Absent where it had none. */
  readonly category?: string | undefined
  /** The group of its failure. */
  readonly group?: string | undefined
  /** The outcome for the task. */
  readonly outcome:
    | 'succeeded'
    | 'skipped'
    | 'advanced'
    | 'retry'
    | 'deferred'
    | 'later'
    | 'dead'
    | 'cancelled'
    | 'lost'
    | 'redriven'
    | 'discarded'
    | 'undone'
    | 'edited'
  /** The delay until the next attempt, if one follows. */
  readonly delayMs: number | undefined
  /** Why the task is dead, was skipped or was redriven. */
  readonly reason: string | undefined
  /** The state that an operator's act replaced, so that it can be undone: with `redriven`, `discarded` and `edited` rows. */
  readonly before?: Before | undefined
}

/** The part of a task that an operator's act replaces. An edit replaces the payload, other acts the rest. */
export interface Before {
  /** Failed attempts. */
  readonly attempts?: number | undefined
  /** Waits that a rate limit asked for. */
  readonly deferrals?: number | undefined
  /** When its attempts and its time to live began to count. */
  readonly startedAt?: number | undefined
  /** For a dead letter, its death: its retention counts from there. */
  readonly changedAt?: number | undefined
  /** The last delay that the backoff asked for. */
  readonly previousDelayMs?: number | undefined
  /** The class of the last verdict. */
  readonly errorClass?: Verdict['class'] | undefined
  /** The code of the last verdict. */
  readonly errorCode?: string | undefined
  /** Name and message of the last failure. */
  readonly errorMessage?: string | undefined
  /** Why it was dead. */
  readonly reason?: string | undefined
  /** JSON text. */
  readonly payload?: string | undefined
}

/**
 * The answer to one settlement. `stale`: the task belonged to another worker by then, and nothing changed. `kept`: the item
 * has advanced and still belongs to the worker, under a new token, from `now` on the store's clock. An advance that is
 * repeated, because its answer was lost, gets the same answer once more, until the item is claimed or settled again.
 *
 * `isStopped`: this call has exceeded the failure budget of the item's run, so no more of its items may start. Stores that
 * check budgets elsewhere never say so.
 *
 * `gates`, on the first answer of a call: gates of failure budgets that the call has opened or closed.
 */
export type Settled = { readonly isStopped?: boolean; readonly gates?: readonly GateChange[] } & (
  | { readonly result: 'settled' | 'stale' }
  | { readonly result: 'kept'; readonly token: string; readonly now: number }
)

/** The two answers, made once: a busy worker gets tens of thousands of them a second. */
export const SETTLED: Settled = Object.freeze({ result: 'settled' })
export const STALE: Settled = Object.freeze({ result: 'stale' })

/** A worker's sign of life, with its report. */
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

/** The person who asked, and why: for the record. */
export interface By {
  /** The person, or the program. */
  readonly who: string
  /** The reason. */
  readonly why?: string
}

/** Which tasks to list: newest change first, then the higher id. An absent field matches everything. */
export interface TaskFilter {
  /** The name given to `defineTask`. */
  readonly kind?: string
  /** The category of the lane. */
  readonly category?: string
  /** The key of the lane. */
  readonly key?: string
  /** Where the task is in its life. */
  readonly status?: TaskStatus
  /** The code of the last verdict, such as `http_502`. */
  readonly errorCode?: string
  /** The group of the last failure. */
  readonly group?: string
}

/** A field that tasks are counted by. */
export type CountField = 'kind' | 'category' | 'key' | 'status' | 'errorCode' | 'reason' | 'group'

/** The number of tasks that agree in the fields that they are counted by. A field without a value is absent. */
export interface TaskCount extends Partial<Pick<TaskRecord, CountField>> {
  /** How many there are. */
  readonly count: number
}

/** The page of a list to return. */
export interface PageRequest {
  /** The maximum number of items. */
  readonly limit: number
  /** The `next` of the previous page, from the same store. Anything else is an `OptionError`. */
  readonly after?: string
}

/** A page of a list. Pages are found by key, so the last page costs no more than the first. */
export interface Page<T> {
  /** The items of this page. */
  readonly items: readonly T[]
  /** Pass it as `after` to get the next page. Absent on the last page. */
  readonly next?: string
}

/** A lane with its limits and its present state. */
export interface LaneRecord extends Lane {
  /** Whether it is paused. */
  readonly isPaused: boolean
  /** The end of its hold; `undefined` if it is not held. */
  readonly heldUntil: number | undefined
  /** The id of the task that holds it: a rate limit refused it, or it is the head of an ordered lane and waits. */
  readonly heldBy?: string | undefined
  /** How many of its tasks run. */
  readonly running: number
  /** Its own limits. */
  readonly limits: LaneLimits
  /** The shared limit that it belongs to, with its learned pace in starts per second, if it has one. */
  readonly shared?: { readonly limits: SharedLimits; readonly pace: number | undefined } | undefined
}

/** The work of a store, in figures. */
export interface StoreStats {
  /** The store's clock. */
  readonly now: number
  /** Workers whose lease has not expired, without notifiers: those whose kinds all begin with `notify:`. */
  readonly workers: number
  /** One entry for each kind and category of its tasks, also after the last one has ended. */
  readonly kinds: readonly KindStats[]
}

/** The tasks of one kind and category, in figures. */
export interface KindStats {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** The category; empty if there is none. */
  readonly category: string
  /** Tasks that wait, whatever they wait for. */
  readonly waiting: number
  /** Of those, tasks in lanes that are paused. */
  readonly paused: number
  /** Of those, tasks in lanes that are held by a rate limit, by an open gate or by the head of an ordered lane, and not paused. */
  readonly held: number
  /** Of those, retries that are due and held by their retry budget, in lanes that are neither paused nor held. About 10 000 are counted at most. */
  readonly budgeted: number
  /** Of those, tasks that are due, in lanes that are neither paused nor held. About 10 000 are counted at most. */
  readonly ready: number
  /** When the task that has been ready for longest became due; `undefined` if none is ready. */
  readonly readySince: number | undefined
  /** Tasks that run. */
  readonly running: number
  /** Dead letters. */
  readonly dead: number
}

/** The limits of a lane. Invalid values are an `OptionError`. */
export interface LaneLimits {
  /** How many of its tasks may run at once: a whole number. With 0, none runs. */
  readonly concurrency?: number
  /** How many of its tasks may start per second, above 0. One second's worth may start at once, the rest evenly. */
  readonly perSecond?: number
  /**
   * Run its tasks strictly one after another: while a task waits for its next attempt, or was lost, all tasks behind it wait
   * too. The concurrency is 1. A new task goes to the end, whatever the clock says, unless it brings its own `submittedAt`.
   * A task that is to run later takes its place when it is due.
   */
  readonly isOrdered?: boolean
}

/**
 * A limit over all lanes that match, together: the quota of a provider, whoever uses it. It holds beside the limits of
 * each lane. A rate limit that a task meets in any of these lanes holds all of them; afterwards they start at a pace that
 * is learned: nine tenths of the rate that was accepted before the refusal, growing again with every second without one.
 */
export interface SharedLimits {
  readonly isShared: true
  /** How many tasks of all these lanes may run at once: a whole number. */
  readonly concurrency?: number
  /** Buckets that fill at a steady rate, by name. A task starts when each has its cost, or is full; it may leave a debt. */
  readonly rates?: Readonly<Record<string, Rate>>
  /**
   * Code declares these limits whenever it starts. A declaration changes nothing if it is the same as the last one for
   * these lanes: limits that an operator has set since then hold until the code declares others.
   */
  readonly isDeclared?: boolean
}

/** A bucket: how fast it fills, and how much it holds. */
export interface Rate {
  /** How much flows in per second, above 0. */
  readonly perSecond: number
  /** Default: one second's worth, at least 1. */
  readonly burst?: number
}

/** Options of `once`. */
export interface OnceOptions {
  /** The parameters of the work, as plain data. The same key with other parameters is an error. */
  readonly params?: unknown
  /** The claimed task on whose behalf the function runs. It does not run if another worker has the task by now. */
  readonly fence?: { readonly id: string; readonly token: string }
}

/** How long ended work is kept, on the store's clock. An absent field means for ever. */
export interface Retention {
  /** Tasks that succeeded, were skipped or were cancelled, with their ledger. */
  readonly endedMs?: number
  /** Dead letters, with their ledger. */
  readonly deadMs?: number
  /** Idempotency keys whose work is done. */
  readonly keysMs?: number
  /** Audit records, and operations that are over. */
  readonly auditMs?: number
}

/** The lanes that agree in every field given, including lanes that are made later. */
export type LaneSelection = Partial<Lane> & { readonly kind: string }

/** The hot verbs: all that a worker and a producer need. Each takes a batch. */
export interface TaskVerbs {
  /** The store's clock. */
  now(): Promise<number>
  /** Adds all tasks or none, in the order given. A task whose id is taken changes nothing. */
  enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]>
  /**
   * Gives a worker tasks to run. Within a room the order over all lanes without a key is exact: priority, then
   * `submittedAt`, then id. Lanes with a key take turns with each other and with those, and are exact within themselves.
   */
  claim(request: ClaimRequest): Promise<Claim>
  /** Records how attempts ended, in the order given. */
  settle(settlements: readonly Settlement[]): Promise<Settled[]>
  /** Renews a worker's lease, keeps its report, and rescues the tasks of workers whose lease has expired. */
  heartbeat(beat: Beat): Promise<Heartbeat>
  /** Tokens of a worker's tasks that somebody asked to cancel, until they are settled. Heartbeats tell them too. */
  cancelled(worker: string): Promise<readonly string[]>
  /** Ends a worker's lease. Tasks that it still has go back uncounted. */
  leave(worker: string): Promise<void>
  /** Calls back when there may be something new to claim, or a running task was cancelled. Returns a function that stops it. */
  watch(callback: () => void): () => void
}

/** Reads tasks and their history. */
export interface TaskReader {
  /** A task, whatever its status; `undefined` if there is none with that id. */
  get(id: string): Promise<TaskRecord | undefined>
  /** A page of the tasks that match. */
  list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>>
  /** The number of tasks that match, by status. */
  count(filter: TaskFilter): Promise<Record<TaskStatus, number>>
  /**
   * The work of the store in figures, for metrics and autoscaling. Its cost depends on the number of lanes, not of tasks:
   * it looks at about 10 000 ready tasks at most, in the order in which they will run.
   */
  stats(): Promise<StoreStats>
  /** The numbers of tasks that match and agree in these fields, in no particular order. */
  countBy(filter: TaskFilter, fields: readonly CountField[]): Promise<TaskCount[]>
  /**
   * How often retries helped that followed failures since then, in no particular order. Reads every failure in the ledger,
   * so it is for reports.
   */
  yields(since: number): Promise<RetryYield[]>
  /** The whole history of a task, oldest first. */
  ledger(id: string): Promise<LedgerRow[]>
  /** The histories of several tasks, in the order of their ids, read at once. Empty for an id that is unknown. */
  ledgers(ids: readonly string[]): Promise<LedgerRow[][]>
  /**
   * Calls back when a task may have ended: soon after its settlement as a rule, within seconds in any case, and perhaps
   * without a reason. Returns a function that stops it. A task that has ended before is not told, so begin to watch, then
   * `get` the task.
   */
  watchEnd(id: string, callback: () => void): () => void
}

/** An operator's verbs on tasks. */
export interface TaskControl {
  /**
   * Gives dead tasks fresh attempts, deferrals and time to live. Their history stays. Items of a run that is being cancelled
   * are left alone. Returns the ids that it moved.
   */
  redrive(ids: readonly string[], by: By): Promise<string[]>
  /**
   * Ends waiting tasks. Watchers are called, so that the worker of a running task asks for `cancelled` and ends it; at the
   * latest it ends where it would wait again.
   * Returns the ids that have ended or will end. Ends a run whose last items these were. With `by`, appends a `cancelled` row to
   * the ledger of each task that waited, and an audit record, in the same transaction.
   */
  cancel(ids: readonly string[], by?: By): Promise<string[]>
  /**
   * Gives dead tasks up for good: they become `cancelled`, with the reason, and keep their error and their history. Items of
   * runs are left alone, since their run counts its dead. Appends an audit record in the same transaction. Returns the ids
   * that it changed.
   */
  discard(ids: readonly string[], by: Required<By>): Promise<string[]>
  /**
   * Replaces the payload of a task that waits or is dead. The original stays on record, in an `edited` row of the ledger.
   * Returns whether there was such a task. An item of a run keeps its payload, since later stages have its value.
   */
  edit(id: string, payload: string, by: By): Promise<boolean>
}

/** Reads and controls lanes. */
export interface LaneControl {
  /** The lanes that match. */
  lanes(filter?: Partial<Lane>): Promise<LaneRecord[]>
  /**
   * Pauses or resumes all lanes that match. The last rule that matches a lane holds, and keeps the time and the person.
   * With `who`, appends an audit record in the same transaction.
   */
  pause(lanes: LaneSelection, pause: { readonly isPaused: boolean } & Partial<By>): Promise<void>
  /**
   * Limits all lanes that match, each by itself. The last rule that matches a lane holds, and replaces earlier ones;
   * repeating it changes nothing. A rate begins with one second's worth. With `by`, appends an audit record in the same
   * transaction.
   *
   * With `isShared`, limits them together instead. A lane belongs to the last shared rule that matches it; shared rules
   * select by kind, or by kind and category. Shared limits that are empty still hold these lanes together. Shared limits
   * that differ from those before also end the hold of these lanes and their learned pace.
   */
  limit(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by?: By): Promise<void>
}

/** Policies by their hash, so that decisions can be recomputed. */
export interface PolicyStore {
  /** Keeps a policy, as JSON text, unless it is there already. */
  keep(hash: string, policy: string): Promise<void>
  /** The policy as JSON text; `undefined` if none is known by that hash. */
  get(hash: string): Promise<string | undefined>
}

/** A page of audit records. */
export interface AuditPage extends Page<string> {
  /** The place behind its last record. Pass it as `after` to read what is appended later. */
  readonly end: string
}

/** An append-only log of JSON records. */
export interface AuditStore {
  /** Appends records, all or none. */
  append(records: readonly string[]): Promise<void>
  /** A page of the records, oldest first. */
  page(page: PageRequest): Promise<AuditPage>
  /** The last records, oldest first. */
  tail(limit: number): Promise<AuditPage>
}

/**
 * Keeps tasks, ledger, runs, operations, policies, idempotency keys and audit records. Each verb is one transaction, and its promise resolves
 * after the commit; concurrent calls may share one.
 */
export interface Store
  extends TaskVerbs,
    TaskReader,
    TaskControl,
    LaneControl,
    LaneRuleReader,
    WorkerReader,
    PrunableReader,
    StandingReader {
  /** Policies by their hash. */
  readonly policies: PolicyStore
  /** The audit log. */
  readonly audit: AuditStore
  /** The runs of pipelines. */
  readonly runs: RunStore
  /** Bulk acts on record. */
  readonly operations: OperationStore
  /** Budgets of kinds, with their gates. */
  readonly budgets: BudgetStore
  /** Failures with the same fingerprint. */
  readonly groups: GroupStore
  /** The keys of an `IdempotencyGuard`, as durable as the tasks. */
  readonly idempotency: IdempotencyStore
  /**
   * Runs a function once per key, within a transaction that it is given: everything it writes through the transaction, the
   * key and the result are committed together, or not at all. A later caller with the same key gets the stored result, as
   * JSON holds it; a concurrent caller waits for it. A function that throws leaves nothing behind, and the key free. The
   * keys are those of `idempotency`: a key that a guard has in progress is an `IdempotencyInProgressError`.
   *
   * The transaction is each store's own: `(db: Database) => …` on SQLite, where the function must be synchronous,
   * `async (client: ClientBase) => …` on PostgreSQL, and nothing in memory.
   */
  once<T>(key: string, work: (tx: never) => T, options?: OnceOptions): Promise<Awaited<T>>
  /**
   * Deletes ended work that is older than its retention: at most `limit` tasks, keys and records in all. Returns how many
   * it deleted; fewer than the limit means that nothing is left to delete. A task goes with its ledger, and its id is free
   * again. Items go with their run, as a whole, once it has ended for long enough; with dead items, for `deadMs` too.
   * Failure groups without tasks that were not seen for `deadMs` are deleted too, uncounted.
   */
  prune(keep: Retention, limit: number): Promise<number>
  /** Closes the file or the connections. The store takes no more calls. */
  close(): Promise<void>
}
