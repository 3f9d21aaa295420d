import type { IdempotencyStore } from '../../idempotency/index.js'
import type { BatchStore } from './batch-store.js'
import type { BudgetStore } from './budget-store.js'
import type { Beat, Claim, ClaimRequest, Heartbeat, Settled, Settlement } from './claim.js'
import type { CostField, CostFilter, CostTotal } from './cost.js'
import type { GroupStore } from './group-store.js'
import type { Lane, LaneLimits, LaneRecord, LaneSelection, SharedLimits } from './lane.js'
import type { LaneRuleReader } from './lane-rule.js'
import type { By, LedgerRow } from './ledger.js'
import type { LifetimeStore } from './lifetime-store.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from './list.js'
import type { OperationSettings, OperationStore } from './operation-store.js'
import type { PrunableReader } from './prunable.js'
import type { COPY, THIS_COPY } from './public-store.js'
import type { RetriedTask } from './retried-task.js'
import type { RunStore } from './run-store.js'
import type { ScheduleStore } from './schedule-store.js'
import type { StepStore } from './step.js'
import type { Storable } from './storable.js'
import type { Enqueued, NewTask, TaskRecord, TaskStatus } from './task.js'
import type { StandingReader } from './task-standing.js'
import type { WorkerReader } from './worker-store.js'

/** Options of `once`. @inline */
export interface OnceOptions {
  /** The parameters of the work, as plain data. The same key with other parameters is an error. */
  readonly params?: unknown
  /** The claimed task on whose behalf the function runs. It does not run if another worker has the task by now. */
  readonly fence?: { readonly id: string; readonly token: string }
}

/** How long ended work is kept, on the store's clock, and how much of it. An absent field means for ever, and all. */
export interface Retention {
  /** Tasks that succeeded, were skipped or were cancelled, with their ledger; runs, batches and slots of schedules. */
  readonly endedMs?: number
  /** Tasks that succeeded, other than items of runs. Default: `endedMs`. */
  readonly succeededMs?: number
  /** Tasks that were skipped, likewise. */
  readonly skippedMs?: number
  /** Tasks that were cancelled, likewise. */
  readonly cancelledMs?: number
  /** Dead letters, with their ledger. */
  readonly deadMs?: number
  /** Idempotency keys whose work is done. */
  readonly keysMs?: number
  /** Audit records, operations that are over, and what attempts have spent. */
  readonly auditMs?: number
  /** How many tasks that ended in a status are kept in the whole store, the newest. Items of runs are not counted. */
  readonly counts?: Partial<Record<EndedStatus, number>>
}

/** The statuses of tasks that have ended. */
export type EndedStatus = Exclude<TaskStatus, 'waiting' | 'running'>

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
   * What attempts have spent, as `used()` said, added up by these fields, in no particular order. Attempts count whatever
   * became of them and of their tasks: those that failed, those that were handed back, and those of tasks that were pruned.
   */
  costs(filter: CostFilter, by: readonly CostField[]): Promise<CostTotal[]>
  /** A page of the tasks that were retried after a failure since then, with their history, in no particular order. */
  retried(since: number, page: PageRequest): Promise<Page<RetriedTask>>
  /** The whole history of a task, oldest first. */
  ledger(id: string): Promise<LedgerRow[]>
  /** The histories of several tasks, in the order of their ids, read at once. Empty for an id that is unknown. */
  ledgers(ids: readonly string[]): Promise<LedgerRow[][]>
  /** The payloads of several tasks, in the order of their ids, read at once. `undefined` for an id that is unknown. */
  payloads(ids: readonly string[]): Promise<(string | undefined)[]>
  /**
   * Calls back when a task may have ended: soon after its settlement as a rule, within seconds in any case, and perhaps
   * without a reason. Returns a function that stops it. A task that has ended before is not told, so begin to watch, then
   * `get` the task.
   */
  watchEnd(id: string, callback: () => void): () => void
}

/** A task to make a dead letter of. */
export interface FailedTask {
  /** Its id. */
  readonly id: string
  /** The tasks that follow its death. */
  readonly ifDead?: readonly NewTask[] | undefined
}

/** An operator's verbs on tasks. */
export interface TaskControl {
  /**
   * Gives dead tasks fresh attempts, deferrals and time to live. Their history stays. Items of a run that is being cancelled
   * are left alone, and, unless `twin` says otherwise, tasks whose unique key another one has by now. Returns the ids that it
   * moved.
   */
  redrive(ids: readonly string[], by: By, options?: Pick<OperationSettings, 'twin'>): Promise<string[]>
  /**
   * Cancels tasks. Waiting tasks end at once. Running tasks are marked, and watchers are called so that their worker aborts
   * them; a marked task that would wait again ends instead. Returns the ids that were cancelled or marked, without those
   * already marked. Ends a run if these were its last items. With `by`, appends an audit record and a ledger row per task
   * (`cancelled` or `cancel_requested`) in the same transaction.
   */
  cancel(ids: readonly string[], by?: By): Promise<string[]>
  /**
   * Gives dead tasks up for good: they become `cancelled`, with the reason, and keep their error and their history. Items of
   * runs are left alone, since their run counts its dead. Appends an audit record in the same transaction. Returns the ids
   * that it changed.
   */
  discard(ids: readonly string[], by: Required<By>): Promise<string[]>
  /**
   * Ends tasks as succeeded that wait, are dead or were cancelled: somebody has done their work by hand. `result` is JSON text, or
   * that of a codec. Running tasks are left alone, and so are items of runs. Each has a `completed` row in its ledger. Appends an audit record
   * in the same transaction. Returns the ids that it changed.
   */
  complete(ids: readonly string[], result: string | undefined, by: By): Promise<string[]>
  /**
   * Makes dead letters of tasks that wait or were cancelled, with the reason `failed_by_hand` and the person's words as their
   * last error. Running tasks are left alone, and so are items of runs. Each has a `failed` row in its ledger. Appends an audit
   * record in the same transaction. Returns the ids that it changed.
   */
  fail(tasks: readonly FailedTask[], by: Required<By>): Promise<string[]>
  /**
   * Deletes tasks with their history, and appends an audit record in the same transaction. Waiting ones are cancelled first,
   * and dead ones discarded. Running tasks are left alone, and so are items of runs and members of batches, which are counted.
   * The ids are free again. Returns those that it deleted.
   */
  delete(ids: readonly string[], by: By): Promise<string[]>
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

/** A record that a feature keeps as a JSON text. */
export interface JsonRecord {
  readonly type: string
  readonly id: string
  readonly state: string
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
 * The contract of the stores: all verbs. It is ours alone, and may change with any release. Users see a `Store`, which has
 * what they call. Each verb is one transaction, and its promise resolves after the commit; concurrent calls may share one.
 */
export interface StoreContract
  extends TaskVerbs,
    TaskReader,
    TaskControl,
    LaneControl,
    LaneRuleReader,
    WorkerReader,
    PrunableReader,
    StandingReader,
    StepStore {
  /** Marks it as a store of this copy of the package. */
  readonly [COPY]: typeof THIS_COPY
  /** Policies by their hash. */
  readonly policies: PolicyStore
  /** The audit log. */
  readonly audit: AuditStore
  /** All schedules, operations, batches, rules and so on as JSON texts, by type and id. */
  records(page: PageRequest): Promise<Page<JsonRecord>>
  /** The runs of pipelines. */
  readonly runs: RunStore
  /** Tasks that were enqueued together, and end together. */
  readonly batches: BatchStore
  /** Bulk acts on record. */
  readonly operations: OperationStore
  /** Recurring work. */
  readonly schedules: ScheduleStore
  /** Times to live, for tasks that no worker runs. */
  readonly lifetimes: LifetimeStore
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
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options?: OnceOptions): Promise<Awaited<T>>
  /**
   * Deletes ended work that is older than its retention: at most `limit` tasks, keys and records in all. Returns how many
   * it deleted; fewer than the limit means that nothing is left to delete. A task goes with its ledger, and its id is free
   * again. Items go with their run, as a whole, once it has ended for long enough; with dead items, for `deadMs` too.
   * Members of a batch are kept until the batch has ended for long enough, with dead members for `deadMs` too.
   * With `counts`, the oldest go while there are more. Members of a batch that is kept are counted, and stay.
   * Failure groups without tasks that were not seen for `deadMs` are deleted too, and slots of schedules that ended for
   * `endedMs`, uncounted.
   */
  prune(keep: Retention, limit: number): Promise<number>
  /** Closes the file or the connections. The store takes no more calls. */
  close(): Promise<void>
}
