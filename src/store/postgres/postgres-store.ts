import type { Clock } from '../../time/index.js'
import { StaleFenceError } from '../contract/errors.js'
import type { Page, PageRequest } from '../contract/list.js'
import type { Storable } from '../contract/storable.js'
import type { OnceOptions } from '../contract/store.js'
import type { Enqueued, NewTask } from '../contract/task.js'
import type { Movable, MovedRow, Section } from '../move/movable.js'
import { checkCompletion, checkFence, checkNewTask } from '../rules/check.js'
import { BaseStore } from '../verbs/base-store.js'
import { judgeGates } from '../verbs/budgets.js'
import { lookAtBudget } from '../verbs/runs.js'
import { PostgresBell } from './bell.js'
import { Claims } from './claim.js'
import type { Database } from './database.js'
import type { SqlClient } from './driver.js'
import { Ends } from './ends.js'
import { Enqueues } from './enqueue.js'
import { grant, grantEnqueue, grantRead } from './grant.js'
import { Holdings } from './holdings.js'
import { PostgresIdempotencyKeys } from './idempotency-keys.js'
import { LockedTasks } from './locked-tasks.js'
import { once } from './once.js'
import { postgresAudit, postgresPolicies } from './records.js'
import { learnFromRefusals } from './refusals.js'
import { RunBudgets } from './run-budgets.js'
import { Settlements } from './settle.js'
import { Signals, type Wire } from './signals.js'
import { StepRecords } from './steps.js'
import { claimedBy } from './token.js'
import type { PostgresTransaction } from './transaction.js'
import { postgresTransactions } from './transactions.js'
import { exportPage, importRows } from './transfer.js'
import { type HotParts, PostgresVerbs } from './verbs.js'
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
export class PostgresStore extends BaseStore implements Movable {
  readonly #parts: PostgresParts
  readonly #database: Database
  readonly #hot: HotParts
  readonly #bell: PostgresBell
  #closing: Promise<void> | undefined

  constructor(parts: PostgresParts) {
    const { database, claims, settlements, wire, clock } = parts
    const signals = new Signals(wire)
    const ends = new Ends(database, wire)
    const bell = new PostgresBell(signals, ends)
    const holdings = new Holdings()
    const enqueues = new Enqueues(database, signals, clock)
    const beside = postgresTransactions(settlements, enqueues)
    // Without a transaction, since a gate is changed by compare and swap.
    const judge = (now: number) => beside.read(tx => judgeGates(tx, now))
    const learn = () => learnFromRefusals(settlements)
    const runBudgets = new RunBudgets(settlements, run => beside.write(tx => lookAtBudget(tx, run)))
    const locked = new LockedTasks(settlements)
    const hot = {
      database,
      enqueues,
      claims: new Claims(claims, holdings),
      settlements: new Settlements(settlements, signals, ends, holdings, enqueues, judge, learn, runBudgets, locked),
      steps: new StepRecords(settlements, locked),
      workers: new Workers(claims, signals, holdings),
    }
    super({
      verbs: new PostgresVerbs(hot),
      transactions: postgresTransactions(database, enqueues),
      bell,
      idempotency: new PostgresIdempotencyKeys(database),
      policies: postgresPolicies(database),
      audit: postgresAudit(database),
    })
    this.#parts = parts
    this.#database = database
    this.#hot = hot
    this.#bell = bell
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
    return this.#hot.enqueues.enqueueIn(client, tasks)
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
   * await store.once('invoice-42', async tx => {
   *   await tx.query('INSERT INTO invoices (id) VALUES ($1)', [42])
   * })
   * ```
   */
  once<T>(key: string, work: (tx: PostgresTransaction) => T & Storable<T>, options?: OnceOptions): Promise<Awaited<T>>
  /** The contract's form, for code that runs on any store: the function's own type names the transaction. */
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options?: OnceOptions): Promise<Awaited<T>>
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options: OnceOptions = {}): Promise<Awaited<T>> {
    return this.transaction(tx => this.onceIn<T, PostgresTransaction>(tx, key, tx => work(tx as never), options))
  }

  /** The same as `once`, within a transaction of the caller's own. */
  async onceIn<T, Client extends SqlClient>(
    client: Client,
    key: string,
    work: (client: Client) => T & Storable<T>,
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

  /** Lets a role call `redrive.enqueue` of this store, and nothing else: for triggers and programs in other languages. */
  grantEnqueue(role: string): Promise<void> {
    return grantEnqueue(this.#database, role)
  }

  exportPage(section: Section, page: PageRequest): Promise<Page<MovedRow>> {
    return exportPage(this.#database, section, page)
  }

  importRows(section: Section, rows: readonly MovedRow[]): Promise<number> {
    return importRows(this.#database, section, rows)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    const { database, claims, settlements, wire, end } = this.#parts
    await database.inTime(
      Promise.all([this.#hot.enqueues, this.#hot.settlements, this.#hot.steps].map(each => each.idle())),
    )
    await Promise.all([database, claims, settlements].map(each => each.close()))
    this.#bell.stop()
    await wire.listener.stop()
    await end()
  }
}
