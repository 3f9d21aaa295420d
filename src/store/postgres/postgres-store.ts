import type { PoolClient } from 'pg'
import type { IdempotencyStore } from '../../idempotency/index.js'
import type { Clock } from '../../time/index.js'
import { StaleFenceError, StoreReadOnlyError, StoreUnavailableError } from '../errors.js'
import { checkedLimits } from '../lane-limits.js'
import type { Movable, MovedRow, Section } from '../move/movable.js'
import { oneRoom } from '../rooms.js'
import type {
  AuditStore,
  Beat,
  By,
  Claim,
  ClaimRequest,
  Enqueued,
  Heartbeat,
  Lane,
  LaneLimits,
  LaneRecord,
  LaneSelection,
  LedgerRow,
  NewTask,
  OnceOptions,
  Page,
  PageRequest,
  PolicyStore,
  Retention,
  Settled,
  Settlement,
  TaskFilter,
  TaskRecord,
  TaskStatus,
} from '../store.js'
import { taskIds } from '../task-id.js'
import { Batcher } from './batcher.js'
import { Browser } from './browse.js'
import { claimedTasks, type StartedTasks } from './claimed-task.js'
import { CANCELED, type Database, LONG, sqlState } from './database.js'
import type { SqlClient } from './driver.js'
import { grant } from './grant.js'
import { Holdings } from './holdings.js'
import { PostgresIdempotencyKeys } from './idempotency-keys.js'
import { newRows } from './new-tasks.js'
import { once } from './once.js'
import { postgresAudit, postgresPolicies } from './records.js'
import { type SettleAnswer, SettlementBatch } from './settlements.js'
import type { Signals } from './signals.js'
import { storable } from './text.js'
import { type Claimed, claimedBy, tokenOf } from './token.js'
import { exportPage, importRows } from './transfer.js'

/** What a store is made of, and how it ends. */
export interface PostgresParts {
  readonly database: Database
  readonly signals: Signals
  /** For tests; without one, the database's clock counts. */
  readonly clock: Clock | undefined
  /** Ends what was opened for this store. */
  readonly end: () => Promise<void>
}

/** A store in a schema of PostgreSQL's, which any number of machines may share. */
export class PostgresStore implements Movable {
  readonly idempotency: IdempotencyStore
  readonly policies: PolicyStore
  readonly audit: AuditStore
  readonly #database: Database
  readonly #signals: Signals
  readonly #clock: Clock | undefined
  readonly #end: () => Promise<void>
  readonly #browser: Browser
  readonly #enqueues: Batcher<NewTask, Enqueued>
  readonly #settlements: Batcher<Settlement, Settled>
  readonly #holdings = new Holdings()
  readonly #makeId = taskIds()
  #lastTurn = 0
  #closing: Promise<void> | undefined

  constructor({ database, signals, clock, end }: PostgresParts) {
    this.#database = database
    this.#signals = signals
    this.#clock = clock
    this.#end = end
    this.#browser = new Browser(database)
    this.#enqueues = new Batcher(tasks => this.#enqueue(tasks), isOutage)
    this.#settlements = new Batcher(settlements => this.#settle(settlements), isOutage)
    this.idempotency = new PostgresIdempotencyKeys(database, () => this.#now())
    this.policies = postgresPolicies(database)
    this.audit = postgresAudit(database, () => this.#now())
  }

  async now(): Promise<number> {
    return Number(await this.#database.call('now_ms', [this.#now()]))
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    if (tasks.length === 0) return []
    const added = await this.#enqueues.add(tasks)
    if (added.some(({ isNew }) => isNew)) this.#signals.ring()
    return added
  }

  /**
   * Enqueues within a transaction of the caller's own, so that its rows and the work that follows from them are committed
   * together, or not at all. Any client that has `query(text, values)` will do.
   *
   * ```ts
   * await client.query('BEGIN')
   * await client.query('INSERT INTO orders (id) VALUES ($1)', [42])
   * await store.enqueueIn(client, [{ kind: 'send-receipt', payload: '{"order":42}' }])
   * await client.query('COMMIT')
   * ```
   */
  async enqueueIn(client: SqlClient, tasks: readonly NewTask[]): Promise<Enqueued[]> {
    if (tasks.length === 0) return []
    const { ids, values } = this.#newRows(tasks)
    const added = enqueued(ids, await this.#database.callIn(client, 'enqueue', values))
    // It is said when the transaction commits, and only then.
    await client.query('SELECT pg_notify($1, $2)', [this.#signals.channel, ''])
    return added
  }

  claim(request: ClaimRequest): Promise<Claim> {
    return this.#holdings.claim(request.worker, () => this.#claim(request))
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    if (settlements.length === 0) return []
    const settled = await this.#settlements.add(settlements)
    this.#holdings.settled(settlements.map(({ token }) => token))
    return settled
  }

  /**
   * Completes a task within a transaction of its handler's own, so that what the handler wrote and that it has succeeded
   * are committed together. If the task is somebody else's by now, this throws, and the transaction is to be rolled back.
   *
   * ```ts
   * await client.query('BEGIN')
   * await client.query('INSERT INTO invoices (id) VALUES ($1)', [42])
   * await store.completeIn(client, task.fence, { result: '"sent"' })
   * await client.query('COMMIT')
   * ```
   */
  async completeIn(
    client: SqlClient,
    fence: { readonly id: string; readonly token: string },
    { result }: { readonly result?: string } = {},
  ): Promise<void> {
    const { claim, round } = claimedBy(fence.token)
    const values = [fence.id, claim, round, result ?? null, this.#now()]
    const isHeld = await this.#database.callIn(client, 'complete', values)
    if (isHeld !== true) throw new StaleFenceError('completeIn', fence.id)
  }

  async heartbeat({ worker, leaseMs }: Beat): Promise<Heartbeat> {
    const { tokens = [], asOf = 0 } = this.#holdings.get(worker) ?? {}
    const known = new Set([...tokens].map(token => claimedBy(token).claim))
    const values = [worker, Math.ceil(leaseMs), [...known], asOf, this.#now()]
    const beat = JSON.parse(String(await this.#database.call('heartbeat', values))) as HeartbeatAnswer
    if (beat.rescued > 0) this.#signals.ring()
    return { cancelled: beat.cancelled.map(tokenOf), rescued: beat.rescued }
  }

  async leave(worker: string): Promise<void> {
    const count = await this.#database.call('leave', [worker, this.#now()])
    this.#holdings.left(worker)
    if (Number(count) > 0) this.#signals.ring()
  }

  get(id: string): Promise<TaskRecord | undefined> {
    return this.#browser.get(id)
  }

  list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>> {
    return this.#browser.list(filter, page)
  }

  count(filter: TaskFilter): Promise<Record<TaskStatus, number>> {
    return this.#browser.count(filter)
  }

  ledger(id: string): Promise<LedgerRow[]> {
    return this.#browser.ledger(id)
  }

  async redrive(ids: readonly string[], { who, why }: By): Promise<string[]> {
    const moved = await this.#changed(ids, 'redrive', [storable(who), storable(why) ?? null])
    if (moved.length > 0) this.#signals.ring()
    return moved
  }

  cancel(ids: readonly string[], _by?: By): Promise<string[]> {
    return this.#changed(ids, 'cancel', [])
  }

  lanes(filter: Partial<Lane> = {}): Promise<LaneRecord[]> {
    return this.#browser.lanes(filter, this.#now())
  }

  async pause(
    { kind, category, key }: LaneSelection,
    { isPaused }: { readonly isPaused: boolean } & Partial<By>,
  ): Promise<void> {
    await this.#database.call('pause', [kind, category ?? null, key ?? null, isPaused])
    if (!isPaused) this.#signals.ring()
  }

  async limit(lanes: LaneSelection, limits: LaneLimits, _by?: By): Promise<void> {
    const { concurrency = null, perSecond = null, isOrdered = false } = checkedLimits(limits)
    const { kind, category = null, key = null } = lanes
    const values = [kind, category, key, concurrency, perSecond, isOrdered, this.#now()]
    await this.#database.call('limit_lanes', values)
    this.#signals.ring()
  }

  async prune({ endedMs, deadMs, keysMs, auditMs }: Retention, limit: number): Promise<number> {
    const ages = [endedMs, deadMs, keysMs, auditMs].map(age => (age === undefined ? null : Math.ceil(age)))
    return Number(await this.#database.call('prune', [...ages, limit, this.#now()], LONG))
  }

  /**
   * Runs a function once per key, within a transaction: what it writes through the client that it is given, the key and
   * its result are committed together, or not at all. After a conflict with another transaction, of which nothing is left,
   * the function is called once more.
   *
   * ```ts
   * await store.once('invoice-42', client => client.query('INSERT INTO invoices (id) VALUES ($1)', [42]))
   * ```
   */
  once<T>(key: string, work: (client: PoolClient) => T, options?: OnceOptions): Promise<Awaited<T>>
  /** As the contract has it: who calls it on any store says what its function takes the transaction for. */
  once<T>(key: string, work: (tx: never) => T, options?: OnceOptions): Promise<Awaited<T>>
  once<T>(key: string, work: (tx: never) => T, options: OnceOptions = {}): Promise<Awaited<T>> {
    return this.#database.transaction(client => this.onceIn(client, key, client => work(client as never), options))
  }

  /** As `once`, within a transaction of the caller's own. */
  onceIn<T, Client extends SqlClient>(
    client: Client,
    key: string,
    work: (client: Client) => T,
    options: OnceOptions = {},
  ): Promise<Awaited<T>> {
    return once(this.#database, client, key, work, options, this.#now())
  }

  /** Lets a role use this store, and no more: it may read and write rows, but not make or change tables. */
  grant(role: string): Promise<void> {
    return grant(this.#database, role)
  }

  exportPage(section: Section, page: PageRequest): Promise<Page<MovedRow>> {
    return exportPage(this.#database, section, page)
  }

  importRows(section: Section, rows: readonly MovedRow[]): Promise<number> {
    return importRows(this.#database, section, rows)
  }

  watch(callback: () => void): () => void {
    return this.#signals.add(callback)
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  async #close(): Promise<void> {
    await this.#enqueues.idle()
    await this.#settlements.idle()
    this.#database.close()
    await this.#signals.stop()
    await this.#end()
  }

  async #enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    const { ids, values } = this.#newRows(tasks)
    return enqueued(ids, await this.#database.call('enqueue', values, LONG))
  }

  #newRows(tasks: readonly NewTask[]) {
    const { ids, values } = newRows(tasks, () => this.#newId())
    return { ids, values: [...values, this.#now()] }
  }

  async #claim(request: ClaimRequest) {
    const { worker, leaseMs, limit, isIdle } = request
    const { kinds, categories } = oneRoom(request)
    const allowed = [kinds, categories ?? null, limit, isIdle]
    const values = [worker, Math.ceil(leaseMs), ...allowed, this.#lastTurn, this.#now()]
    const claim = JSON.parse(String(await this.#database.call('claim', values))) as ClaimAnswer
    this.#lastTurn = claim.last_turn
    const answer: Claim = {
      tasks: claim.tasks.flatMap(started => (started === null ? [] : claimedTasks(started, claim.now))),
      now: claim.now,
      nextAt: claim.next_at ?? undefined,
      isAloneWaiting: claim.is_alone_waiting,
    }
    return { claim: answer, asOf: claim.as_of }
  }

  async #settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    const batch = new SettlementBatch(settlements)
    const answer = JSON.parse(
      String(await this.#database.call('settle', [...batch.values, this.#now()])),
    ) as SettleAnswer
    const isAnyBack = settlements.some(({ outcome }) => 'delayMs' in outcome || outcome.type === 'released')
    if (answer.is_any_bounded || isAnyBack) this.#signals.ring()
    return batch.results(answer)
  }

  /** Calls a function that returns the ids of the tasks it changed; in the order in which they were given. */
  async #changed(ids: readonly string[], fn: string, more: unknown[]): Promise<string[]> {
    const answer = await this.#database.call(fn, [ids, ...more, this.#now()], LONG)
    const changed = new Set(JSON.parse(String(answer)) as string[])
    return [...new Set(ids)].filter(id => changed.has(id))
  }

  #newId(): string {
    return this.#makeId(this.#clock?.now() ?? Date.now())
  }

  #now(): number | null {
    return this.#clock === undefined ? null : Math.floor(this.#clock.now())
  }
}

interface HeartbeatAnswer {
  readonly cancelled: readonly Claimed[]
  readonly rescued: number
}

interface ClaimAnswer {
  readonly now: number
  readonly next_at: number | null
  readonly is_alone_waiting: boolean
  readonly last_turn: number
  readonly as_of: number
  readonly tasks: readonly (StartedTasks | null)[]
}

/** Which of the ids are new: all of them, or those that are named. */
function enqueued(ids: readonly string[], answer: unknown): Enqueued[] {
  if (typeof answer !== 'string') return ids.map(id => ({ id, isNew: true }))
  const added = new Set(JSON.parse(answer) as string[])
  // The first of those that share an id is the new one.
  return ids.map(id => ({ id, isNew: added.delete(id) }))
}

/** Whether the database was away, so that the rest of a batch would fare no better. What took too long might, in parts. */
function isOutage(error: unknown): boolean {
  if (error instanceof StoreUnavailableError) return sqlState(error.cause) !== CANCELED
  return error instanceof StoreReadOnlyError
}
