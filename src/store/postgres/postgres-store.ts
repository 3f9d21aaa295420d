import type { IdempotencyStore } from '../../idempotency/index.js'
import type { Clock } from '../../time/index.js'
import type { Beat, Claim, ClaimRequest, Heartbeat, Settled, Settlement } from '../contract/claim.js'
import { StaleFenceError } from '../contract/errors.js'
import type { Lane, LaneLimits, LaneRecord, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { LaneRules } from '../contract/lane-rule.js'
import type { By, LedgerRow } from '../contract/ledger.js'
import type { CountField, Page, PageRequest, StoreStats, TaskCount, TaskFilter } from '../contract/list.js'
import type { OperationStore } from '../contract/operation-store.js'
import type { Prunable } from '../contract/prunable.js'
import type { RetriedTask } from '../contract/retried-task.js'
import type { RunStore } from '../contract/run-store.js'
import type { Storable } from '../contract/storable.js'
import type { AuditStore, OnceOptions, PolicyStore, Retention } from '../contract/store.js'
import type { Enqueued, NewTask, TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { WorkerRecord } from '../contract/worker-store.js'
import type { Movable, MovedRow, Section } from '../move/movable.js'
import type { Transactions } from '../port/steps.js'
import {
  checkBeat,
  checkBy,
  checkClaim,
  checkCompletion,
  checkCountFields,
  checkDiscard,
  checkFence,
  checkFilter,
  checkIds,
  checkLaneSelection,
  checkLanes,
  checkLimit,
  checkName,
  checkNewTask,
  checkPage,
  checkPause,
  checkRetention,
  checkSettlement,
  checkText,
  checkTime,
} from '../rules/check.js'
import { cancelRecord } from '../rules/operator-record.js'
import { mayBeItem } from '../rules/runs/items.js'
import { Operations } from '../verbs/operations.js'
import { cancelTasks, judgeBudget, Runs, redriveTasks } from '../verbs/runs.js'
import { Browser } from './browse.js'
import { PostgresBudgets } from './budgets.js'
import { Claims } from './claim.js'
import type { Database } from './database.js'
import type { SqlClient } from './driver.js'
import { Ends } from './ends.js'
import { Enqueues } from './enqueue.js'
import { grant, grantRead } from './grant.js'
import { PostgresGroups } from './groups.js'
import { Holdings } from './holdings.js'
import { PostgresIdempotencyKeys } from './idempotency-keys.js'
import { laneRules } from './lane-rules.js'
import { once } from './once.js'
import { Operators } from './operators.js'
import { prunable } from './prunable.js'
import { postgresAudit, postgresPolicies } from './records.js'
import { RunBudgets } from './run-budgets.js'
import { Settlements } from './settle.js'
import { Signals, type Wire } from './signals.js'
import { claimedBy } from './token.js'
import type { PostgresTransaction } from './transaction.js'
import { postgresTransactions } from './transactions.js'
import { exportPage, importRows } from './transfer.js'
import { Workers } from './workers.js'

/** The parts of a store. */
export interface PostgresParts {
  readonly database: Database
  /** The same, for claims and heartbeats: handlers' transactions must not keep a worker from renewing its lease. */
  readonly claims: Database
  /** The same, for settlements. */
  readonly settlements: Database
  readonly wire: Wire
  /** A test's clock. Default: the database's. */
  readonly clock: Clock | undefined
  /** Ends the connections that were opened for this store. */
  readonly end: () => Promise<void>
}

/** A store in a schema of a PostgreSQL database, which any number of machines may share. */
export class PostgresStore implements Movable {
  readonly idempotency: IdempotencyStore
  /** Policies by their hash. */
  readonly policies: PolicyStore
  /** The audit log. */
  readonly audit: AuditStore
  /** The runs of pipelines. */
  readonly runs: RunStore
  /** Bulk acts on record. */
  readonly operations: OperationStore
  /** Budgets of kinds, with their gates. */
  readonly budgets: PostgresBudgets
  /** Failures with the same fingerprint. */
  readonly groups: PostgresGroups
  readonly #database: Database
  readonly #port: Transactions
  readonly #databases: readonly Database[]
  readonly #wire: Wire
  readonly #signals: Signals
  readonly #ends: Ends
  readonly #end: () => Promise<void>
  readonly #enqueues: Enqueues
  readonly #claims: Claims
  readonly #settlements: Settlements
  readonly #workers: Workers
  readonly #browser: Browser
  readonly #operators: Operators
  #closing: Promise<void> | undefined

  constructor({ database, claims, settlements, wire, clock, end }: PostgresParts) {
    const signals = new Signals(wire)
    const ends = new Ends(database, wire)
    this.#database = database
    this.#databases = [database, claims, settlements]
    this.#wire = wire
    this.#signals = signals
    this.#ends = ends
    this.#end = end
    const holdings = new Holdings()
    this.#enqueues = new Enqueues(database, signals, clock)
    this.#claims = new Claims(claims, holdings)
    this.budgets = new PostgresBudgets(database, settlements, signals)
    const beside = postgresTransactions(settlements, this.#enqueues)
    const runBudgets = new RunBudgets(settlements, run => beside.write(tx => judgeBudget(tx, run)))
    this.#settlements = new Settlements(settlements, signals, ends, holdings, this.budgets, runBudgets)
    this.#workers = new Workers(claims, signals, holdings)
    this.#browser = new Browser(database)
    this.#operators = new Operators(database, signals)
    this.groups = new PostgresGroups(database)
    this.#port = postgresTransactions(database, this.#enqueues)
    this.runs = new Runs(this.#port, () => signals.ring())
    this.operations = new Operations(this.#port, () => signals.ring())
    this.idempotency = new PostgresIdempotencyKeys(database)
    this.policies = postgresPolicies(database)
    this.audit = postgresAudit(database)
  }

  async now(): Promise<number> {
    return Number(await this.#database.call('now_ms', [this.#database.at]))
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    tasks.forEach(checkNewTask)
    return this.#enqueues.enqueue(tasks)
  }

  /**
   * Enqueues within a transaction, so that its rows and the work that follows from them are committed together, or not at
   * all. In a transaction of the caller's own, any client that has `query(text, values)` will do.
   *
   * ```ts
   * await store.transaction(async tx => {
   *   await tx.query('INSERT INTO orders (id) VALUES ($1)', [42])
   *   await store.enqueueIn(tx, [{ kind: 'send-receipt', payload: '{"order":42}' }])
   * })
   * ```
   */
  async enqueueIn(client: SqlClient, tasks: readonly NewTask[]): Promise<Enqueued[]> {
    tasks.forEach(checkNewTask)
    return this.#enqueues.enqueueIn(client, tasks)
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    checkClaim(request)
    return this.#claims.claim(request)
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    settlements.forEach(checkSettlement)
    return this.#settlements.settle(settlements)
  }

  /**
   * Completes a task within a transaction of its handler's, so that the handler's writes and the task's success are
   * committed together. Throws if another worker has the task by now: then roll the transaction back.
   *
   * ```ts
   * await store.transaction(async tx => {
   *   await tx.query('INSERT INTO invoices (id) VALUES ($1)', [42])
   *   await store.completeIn(tx, task.fence, { result: '"sent"' })
   * })
   * ```
   */
  async completeIn(
    client: SqlClient,
    fence: { readonly id: string; readonly token: string },
    options: { readonly result?: string | undefined } = {},
  ): Promise<void> {
    checkCompletion(fence, options)
    const { result } = options
    const { claim, round, advances } = claimedBy(fence.token)
    const values = [fence.id, claim, round, advances, result ?? null, this.#database.at]
    const isHeld = await this.#database.callIn(client, 'complete', values)
    if (isHeld !== true) throw new StaleFenceError('completeIn', fence.id)
  }

  workers(): Promise<WorkerRecord[]> {
    return this.#workers.live()
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    checkBeat(beat)
    const heartbeat = await this.#workers.heartbeat(beat)
    // Not earlier: two connections that plan at once take turns at the processors.
    this.#settlements.prepare()
    return heartbeat
  }

  async cancelled(worker: string): Promise<string[]> {
    checkName('worker', worker)
    return this.#workers.cancelled(worker)
  }

  async leave(worker: string): Promise<void> {
    checkName('worker', worker)
    return this.#workers.leave(worker)
  }

  async get(id: string): Promise<TaskRecord | undefined> {
    checkName('id', id)
    return this.#browser.get(id)
  }

  async standing(id: string, limit: number): Promise<TaskStanding | undefined> {
    checkName('id', id)
    checkPage({ limit })
    return this.#browser.standing(id, limit)
  }

  async list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>> {
    checkFilter(filter)
    checkPage(page)
    return this.#browser.list(filter, page)
  }

  async count(filter: TaskFilter): Promise<Record<TaskStatus, number>> {
    checkFilter(filter)
    return this.#browser.count(filter)
  }

  async stats(): Promise<StoreStats> {
    return this.#browser.stats()
  }

  async countBy(filter: TaskFilter, fields: readonly CountField[]): Promise<TaskCount[]> {
    checkFilter(filter)
    checkCountFields(fields)
    return this.#browser.countBy(filter, fields)
  }

  async retried(since: number, page: PageRequest): Promise<Page<RetriedTask>> {
    checkTime('since', since)
    checkPage(page)
    return this.#browser.retried(since, page)
  }

  async ledger(id: string): Promise<LedgerRow[]> {
    checkName('id', id)
    const [rows = []] = await this.ledgers([id])
    return rows
  }

  async ledgers(ids: readonly string[]): Promise<LedgerRow[][]> {
    checkIds(ids)
    return this.#browser.ledgers(ids)
  }

  async payloads(ids: readonly string[]): Promise<(string | undefined)[]> {
    checkIds(ids)
    return this.#browser.payloads(ids)
  }

  async redrive(ids: readonly string[], by: By): Promise<string[]> {
    checkIds(ids)
    checkName('who', by?.who)
    checkBy(by)
    if (!ids.some(mayBeItem)) return this.#operators.redrive(ids, by)
    const moved = await this.#port.write(function* (tx) {
      return yield* redriveTasks(tx, ids, by, yield* tx.clock.now())
    })
    if (moved.length > 0) this.#signals.ring()
    return moved
  }

  async cancel(ids: readonly string[], by?: By): Promise<string[]> {
    checkIds(ids)
    checkBy(by)
    if (!ids.some(mayBeItem)) return this.#operators.cancel(ids, by)
    const cancelled = await this.#port.write(function* (tx) {
      const now = yield* tx.clock.now()
      const ending = yield* cancelTasks(tx, ids, by, now)
      if (by !== undefined) yield* tx.audit.append(cancelRecord(ending, by, now), now)
      return ending
    })
    if (cancelled.length > 0) this.#signals.ring()
    return cancelled
  }

  async discard(ids: readonly string[], by: Required<By>): Promise<string[]> {
    checkIds(ids)
    checkDiscard(by)
    return this.#operators.discard(ids, by)
  }

  async edit(id: string, payload: string, by: By): Promise<boolean> {
    checkName('id', id)
    checkText('payload', payload)
    checkName('who', by?.who)
    checkBy(by)
    return this.#operators.edit(id, payload, by)
  }

  async lanes(filter: Partial<Lane> = {}): Promise<LaneRecord[]> {
    checkLanes(filter)
    return this.#browser.lanes(filter)
  }

  async laneRules(filter: Partial<Lane> = {}): Promise<LaneRules> {
    checkLanes(filter)
    return laneRules(this.#database, filter)
  }

  async pause(
    lanes: LaneSelection,
    { isPaused, who, why }: { readonly isPaused: boolean } & Partial<By>,
  ): Promise<void> {
    checkLaneSelection(lanes)
    checkPause({ isPaused, who, why })
    return this.#operators.pause(lanes, isPaused, who === undefined ? undefined : { who, why })
  }

  async limit(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by?: By): Promise<void> {
    checkLaneSelection(lanes)
    checkBy(by)
    return this.#operators.limit(lanes, limits, by)
  }

  async prunable(keep: Retention): Promise<Prunable> {
    checkRetention(keep)
    return prunable(this.#database, keep)
  }

  async prune(keep: Retention, limit: number): Promise<number> {
    checkRetention(keep)
    checkLimit(limit)
    const gone = await this.#operators.pruneRuns(keep, limit)
    return gone + (await this.#operators.prune(keep, limit - gone))
  }

  /**
   * Runs a function within a transaction: committed when the function resolves, rolled back when it rejects or the
   * connection breaks. `enqueueIn`, `completeIn`, `onceIn` and `outbox.publish` take the transaction. If the connection
   * breaks during the commit, whether that was written is not known, and the call rejects with a `StoreUnavailableError`.
   *
   * After a conflict with another transaction (a deadlock, or a serialisation failure), which leaves nothing behind, the
   * function is called again. So let it do nothing but queries.
   *
   * ```ts
   * await store.transaction(async tx => {
   *   await tx.query('INSERT INTO orders (id) VALUES ($1)', [42])
   *   await store.enqueueIn(tx, [{ kind: 'send-receipt', payload: '{"order":42}' }])
   * })
   * ```
   */
  transaction<T>(work: (tx: PostgresTransaction) => Promise<T>): Promise<T> {
    return this.#database.transaction(work)
  }

  /**
   * Runs a function once per key, within a transaction: everything it writes through that, the key and its result are
   * committed together, or not at all. After a conflict with another transaction, the function is called again.
   *
   * ```ts
   * await store.once('invoice-42', tx => tx.query('INSERT INTO invoices (id) VALUES ($1)', [42]))
   * ```
   */
  once<T>(key: string, work: (tx: PostgresTransaction) => T & Storable<T>, options?: OnceOptions): Promise<Awaited<T>>
  /** The contract's form, for code that runs on any store: the function's own type names the transaction. */
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options?: OnceOptions): Promise<Awaited<T>>
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options: OnceOptions = {}): Promise<Awaited<T>> {
    return this.transaction(tx => this.onceIn(tx, key, tx => work(tx as never), options))
  }

  /** The same as `once`, within a transaction of the caller's own. */
  async onceIn<T, Client extends SqlClient>(
    client: Client,
    key: string,
    work: (client: Client) => T,
    options: OnceOptions = {},
  ): Promise<Awaited<T>> {
    checkFence(options)
    return once(this.#database, client, key, work, options)
  }

  /** Lets a role use this store, and no more: it may read and write rows, but not create or change tables. */
  grant(role: string): Promise<void> {
    return grant(this.#database, role)
  }

  /** Lets a role read the views of this store, and nothing else: for dashboards and people's own queries. */
  grantRead(role: string): Promise<void> {
    return grantRead(this.#database, role)
  }

  exportPage(section: Section, page: PageRequest): Promise<Page<MovedRow>> {
    return exportPage(this.#database, section, page)
  }

  importRows(section: Section, rows: readonly MovedRow[]): Promise<number> {
    return importRows(this.#database, section, rows)
  }

  watch(callback: () => void): () => void {
    const unwatch = this.#signals.add(callback)
    const unhear = this.#ends.hear()
    return () => {
      unwatch()
      unhear()
    }
  }

  watchEnd(id: string, callback: () => void): () => void {
    checkName('id', id)
    return this.#ends.add(id, callback)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#database.inTime(Promise.all([this.#enqueues.idle(), this.#settlements.idle()]))
    await Promise.all(this.#databases.map(database => database.close()))
    this.#signals.stop()
    this.#ends.stop()
    await this.#wire.listener.stop()
    await this.#end()
  }
}
