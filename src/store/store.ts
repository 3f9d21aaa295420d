import type { IdempotencyStore } from '../idempotency/index.js'
import type { GiveUpReason, Verdict } from '../policy/index.js'

/**
 * The life of a task
 *
 *                      ┌──────────── retry, deferred, released, lost ────────────┐
 *                      ▼                                                          │
 *   enqueue ──► waiting (scheduled ──due──► ready) ──claim──► running ──settle──► succeeded
 *                      ▲                                                          skipped
 *                      └───────────────── redrive ─────────────────────────────── dead
 *                                                                                 cancelled
 *
 * Every accepted task is in exactly one of these states at every moment. A settlement writes the new state and the
 * ledger's row in one transaction, so that a task and its history never disagree.
 *
 * - **waiting**: entered by enqueue, and by a settlement that asks for another attempt. *Scheduled* until its time has
 *   come, then *ready*. A claim first makes due tasks ready, then takes ready ones from lanes that are allowed, not
 *   held, not paused and below their limits.
 * - **running**: entered by a claim, which gives a new token. Whoever claims starts at once, so that a worker that dies
 *   costs an attempt only to what it had started. A settlement with another token changes nothing, and says so.
 * - **lost**: not a state but an event. When a worker's lease has run out, its running tasks go back to waiting, each with
 *   a row `lost` in the ledger and one more attempt and loss. Nobody has decided yet what follows: the store knows no
 *   policies. So the task is claimed as `undecided`, and whoever claims it asks the kernel first, and settles what it
 *   said before anything runs. From its first loss on, a task runs alone in its worker.
 *
 * A lease has run out exactly at its end, but until somebody rescues its tasks they are still their worker's: it may
 * settle them, or renew.
 */

/** Where a task is in its life. */
export type TaskStatus = 'waiting' | 'running' | 'succeeded' | 'skipped' | 'dead' | 'cancelled'

/** What is held back, paused, limited and given turns as one. An empty category or key is none. */
export interface Lane {
  readonly kind: string
  readonly category: string
  readonly key: string
}

/** A task to be enqueued. */
export interface NewTask {
  /** Which tasks it is one of: the name that `defineTask` was given. */
  readonly kind: string
  /** A part of its lane. Default: none. */
  readonly category?: string
  /** The key of its lane: a tenant, an account, a host. Default: none. */
  readonly key?: string
  /** The caller's own, for deduplication; made up, and ordered by time, if it is absent. */
  readonly id?: string
  /** JSON text. */
  readonly payload: string
  /** Higher goes first. Default 0. */
  readonly priority?: number
  /** Default: now. Among equals, the oldest goes first. */
  readonly submittedAt?: number
  /** Not before then. Default: at once. */
  readonly runAt?: number
  /** Its first attempt was made elsewhere and came to this: the task is enqueued as that leaves it, with its ledger. */
  readonly tried?: { readonly outcome: Outcome; readonly attempt: AttemptEntry }
}

/** What became of a task that was to be enqueued: `isNew` is false if its id was there already, and nothing changed. */
export interface Enqueued {
  readonly id: string
  readonly isNew: boolean
}

/** A task as it is on record. Times are milliseconds since the epoch, on the store's clock. */
export interface TaskRecord extends Lane {
  readonly id: string
  /** JSON text. */
  readonly payload: string
  readonly status: TaskStatus
  /** Higher goes first. */
  readonly priority: number
  readonly submittedAt: number
  /** When it began to count its attempts and its time to live: when it was enqueued, or last redriven. */
  readonly startedAt: number
  /** When the next attempt is due; `undefined` while it runs and once it has ended. */
  readonly nextAttemptAt: number | undefined
  /** Failed attempts that counted, losses among them. All counters and errors are cleared by a success or a skip. */
  readonly attempts: number
  /** Waits that a rate limit asked for, and that cost no attempt. */
  readonly deferrals: number
  /** How many workers died with it. A redrive keeps this one: what kills its worker runs alone for ever after. */
  readonly losses: number
  /** The last delay that the backoff asked for. */
  readonly previousDelayMs: number | undefined
  /** What the classifier said of the last failure. */
  readonly errorClass: Verdict['class'] | undefined
  /** The stable code of that: `http_502`, say. */
  readonly errorCode: string | undefined
  /** Name and message of the last failure, bounded, secrets left out. */
  readonly errorMessage: string | undefined
  /** Why it is dead or was skipped. */
  readonly reason: string | undefined
  /** JSON text. */
  readonly result: string | undefined
  /** When it reached the state it is in. */
  readonly changedAt: number
}

/** What a worker asks for. */
export interface ClaimRequest {
  /** Who asks, and whose lease keeps what it gets. */
  readonly worker: string
  /** For how long the lease runs from now on; after a claim that gave nothing, and so need not write, at least half of it. */
  readonly leaseMs: number
  /** No kinds, no work. */
  readonly kinds: readonly string[]
  /** Absent: all of them. Empty: no work. */
  readonly categories?: readonly string[]
  readonly limit: number
  /** Whether the worker has nothing else under way, so that it can take a task that must run alone. */
  readonly isIdle: boolean
}

/** What a worker gets. */
export interface Claim {
  readonly tasks: readonly ClaimedTask[]
  /** The store's clock at the claim. */
  readonly now: number
  /** When there may be more to claim: the earliest task that will be due, the end of a hold, or a rate's next start. */
  readonly nextAt: number | undefined
  /** A task is ready that must run alone: a worker that comes with nothing under way gets it, before all others. */
  readonly isAloneWaiting: boolean
}

/** A task that is now the worker's, to be started at once. */
export interface ClaimedTask extends TaskRecord {
  /** New with each claim. A settlement needs it. */
  readonly token: string
  /**
   * Its last attempt was lost, and nobody has decided yet what follows from that. This claim is for the decision alone,
   * settled as `retry` or `dead`: if this worker dies too, the task goes back as it was, uncounted.
   */
  readonly isUndecided: boolean
}

/** What a run of a task came to. */
export interface Settlement {
  readonly id: string
  readonly token: string
  readonly outcome: Outcome
  /**
   * The ledger's row. Absent where no attempt was made: then nothing is counted and no row is written. On an undecided
   * task it is no attempt either: its verdict, error, random and policy are told to the `lost` row.
   */
  readonly attempt?: AttemptEntry
}

/** What follows from a run. Delays are counted from the store's now. */
export type Outcome =
  | { readonly type: 'succeeded'; readonly result?: string }
  | { readonly type: 'skipped'; readonly reason: string }
  /** Counts as an attempt; a delay that came from the backoff is remembered for the next. */
  | { readonly type: 'retry'; readonly delayMs: number; readonly isBackoff: boolean }
  /**
   * A rate limit: costs no attempt, and holds the lane for as long. Afterwards the lane starts with one task, and each
   * that began after the hold and ends without another lets one more run, so that it doubles from round to round.
   */
  | { readonly type: 'deferred'; readonly delayMs: number }
  /** The handler asked to be called later, without having failed: costs nothing. */
  | { readonly type: 'later'; readonly delayMs: number }
  | { readonly type: 'dead'; readonly reason: GiveUpReason }
  | { readonly type: 'cancelled' }
  /** Handed back uncounted: a shutdown. */
  | { readonly type: 'released' }

/** What the ledger keeps of an attempt: enough to recompute its decision. */
export interface AttemptEntry {
  /** Its number, from 1. */
  readonly attempt: number
  readonly startedAt: number
  readonly endedAt: number
  readonly worker: string
  readonly verdict?: Verdict
  /** Bounded, secrets left out. */
  readonly error?: string
  /** Where the delay fell within its jitter. */
  readonly random?: number
  /** The hash of the policy that decided; the store keeps the policy itself under it. */
  readonly policy?: string
}

/**
 * A row of the ledger. Rows are never changed, save that a `lost` one is told what was decided on it. A `redriven` one
 * is no attempt: its number is 0, its `worker` is who asked and its `reason` is why.
 */
export interface LedgerRow extends AttemptEntry {
  /** Counts all rows of the task, from 1. */
  readonly sequence: number
  readonly outcome:
    | 'succeeded'
    | 'skipped'
    | 'retry'
    | 'deferred'
    | 'later'
    | 'dead'
    | 'cancelled'
    | 'lost'
    | 'redriven'
  readonly delayMs: number | undefined
  readonly reason: string | undefined
}

/** Whether a settlement took effect. `stale`: the task was somebody else's by then, and nothing changed. */
export type Settled = 'settled' | 'stale'

/** What a worker learns from its heartbeat. */
export interface Heartbeat {
  /** Tokens of its tasks that somebody asked to cancel, each time until they are settled. */
  readonly cancelled: readonly string[]
  /** How many tasks it took from workers that died. */
  readonly rescued: number
}

/** Which tasks to list: newest change first, among equals the higher id. What is left out matches everything. */
export interface TaskFilter {
  readonly kind?: string
  readonly category?: string
  readonly key?: string
  readonly status?: TaskStatus
  /** The code of the last verdict: `http_502`, say. */
  readonly errorCode?: string
}

/** Which page of a list is wanted. */
export interface PageRequest {
  /** How many items at most. */
  readonly limit: number
  /** The `next` of the page before, from this very store; anything else is an `OptionError`. */
  readonly after?: string
}

/** A page of a list: by key, so that the last page costs what the first does. */
export interface Page<T> {
  readonly items: readonly T[]
  /** Give it to get the next page; absent after the last. */
  readonly next?: string
}

/** What a lane allows and where it stands. */
export interface LaneRecord extends Lane {
  readonly isPaused: boolean
  /** `undefined` once it is over. */
  readonly heldUntil: number | undefined
  readonly running: number
  readonly limits: LaneLimits
}

/** How much of a lane may run at once, and how many of its tasks may start in a second. What cannot be is an `OptionError`. */
export interface LaneLimits {
  /** A whole number. With 0, nothing of it runs. */
  readonly concurrency?: number
  /** Above 0, also less than 1. A second's worth may start at once, and then one whenever an even flow has made room. */
  readonly perSecond?: number
  /**
   * One after the other, whatever happens to the first: while it waits for another attempt, or was lost, all that come
   * after it wait too. So the concurrency is 1. What is enqueued comes after all that are there, whatever the clock says,
   * unless it says itself when it was submitted. What is to run later takes its place once its time has come.
   */
  readonly isOrdered?: boolean
}

/** What a `once` may be given besides its key and its function. */
export interface OnceOptions {
  /** What the function is asked to do, as plain data. The same key with other parameters is an error. */
  readonly params?: unknown
  /** The claimed task on whose behalf it runs: it does not run if that is somebody else's by now. */
  readonly fence?: { readonly id: string; readonly token: string }
}

/** How long what is over is kept, on the store's clock. What is left out is kept for ever. */
export interface Retention {
  /** Tasks that succeeded, were skipped or were cancelled, with their ledger. */
  readonly endedMs?: number
  /** Dead letters, with theirs. */
  readonly deadMs?: number
  /** Idempotency keys whose work is done. */
  readonly keysMs?: number
  /** Audit records. */
  readonly auditMs?: number
}

/**
 * Where tasks, ledger, idempotency keys and audit records live. Each verb is one transaction, and its promise resolves
 * after the commit; concurrent calls may share one.
 */
export interface Store {
  /** The store's clock. */
  now(): Promise<number>
  /** All of them or none, in the order given. One whose id is there already changes nothing. */
  enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]>
  /**
   * Over all lanes without a key the order is exact: priority, then `submittedAt`, then id. Lanes with a key take turns
   * with each other and with those, and are exact within themselves.
   */
  claim(request: ClaimRequest): Promise<Claim>
  /** In the order given. */
  settle(settlements: readonly Settlement[]): Promise<Settled[]>
  /** Renews the lease of a worker, and rescues the tasks of those whose lease has run out. */
  heartbeat(worker: string, leaseMs: number): Promise<Heartbeat>
  /** Ends a worker's lease: what it still has goes back uncounted. */
  leave(worker: string): Promise<void>

  /** A task, whatever its status; `undefined` if there is none of that id. */
  get(id: string): Promise<TaskRecord | undefined>
  /** A page of the tasks that match. */
  list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>>
  /** How many tasks match, by status. */
  count(filter: TaskFilter): Promise<Record<TaskStatus, number>>
  /** The whole history of a task, oldest first. */
  ledger(id: string): Promise<LedgerRow[]>
  /** Gives dead tasks fresh attempts, deferrals and time to live; their history stays. Returns those it moved. */
  redrive(ids: readonly string[], by: { readonly who: string; readonly why?: string }): Promise<string[]>
  /**
   * Ends waiting tasks; a running one is told by its worker's next heartbeat, and ends where it would wait again, whatever
   * is settled. Returns those it will end or has ended.
   */
  cancel(ids: readonly string[]): Promise<string[]>

  /** Where the lanes that match stand. */
  lanes(filter?: Partial<Lane>): Promise<LaneRecord[]>
  /** Pauses or resumes all lanes that match, those that come later included. The last word on a lane holds. */
  pause(lanes: Partial<Lane> & { readonly kind: string }, isPaused: boolean): Promise<void>
  /**
   * Limits all lanes that match, each by itself, those that come later included. The last word on a lane holds, in place
   * of what was said before, and said again it changes nothing. A rate begins with a second's worth.
   */
  limit(lanes: Partial<Lane> & { readonly kind: string }, limits: LaneLimits): Promise<void>

  /** Keeps a policy under its hash, so that decisions can be recomputed. */
  keepPolicy(hash: string, policy: string): Promise<void>
  /** The policy that was kept under a hash, as JSON text. */
  policy(hash: string): Promise<string | undefined>
  /** Where the keys of an `IdempotencyGuard` can live: as durable as the tasks. */
  readonly idempotency: IdempotencyStore
  /**
   * Runs a function once per key, within a transaction that it is given: what it writes through that, the key and its
   * result are committed together, or not at all. Who comes with the key later gets the result, as JSON holds it; who
   * comes meanwhile waits for it. A function that throws leaves nothing behind, and the key free. The keys are those of
   * `idempotency`: one that a guard has in progress is an `IdempotencyInProgressError`.
   *
   * The transaction is each store's own: `(db: Database) => …` on SQLite, where the function must be synchronous,
   * `async (client: ClientBase) => …` on PostgreSQL, and nothing in memory.
   */
  once<T>(key: string, work: (tx: never) => T, options?: OnceOptions): Promise<Awaited<T>>
  /** Puts records, each a JSON text, on record for good. */
  appendAudit(records: readonly string[]): Promise<void>
  /** Oldest first. */
  audit(page: PageRequest): Promise<Page<string>>
  /**
   * Forgets what has been over for at least as long as it is to be kept, up to `limit` tasks, keys and records in all.
   * Returns how many went: fewer than the limit means that nothing is left to forget. A task goes with its ledger, and
   * its id is free again.
   */
  prune(keep: Retention, limit: number): Promise<number>

  /** Calls back when there may be something new to claim. Returns what stops that. */
  watch(callback: () => void): () => void
  /** Lets go of the file or the connections. The store takes no more calls. */
  close(): Promise<void>
}
