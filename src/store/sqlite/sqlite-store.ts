import type { IdempotencyStore } from '../../idempotency/index.js'
import type { Clock } from '../../time/index.js'
import type { Beat, Claim, ClaimRequest, Heartbeat, Settled, Settlement } from '../contract/claim.js'
import { StoreForeignError } from '../contract/errors.js'
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
import { inSteps, type Transactions, type Tx } from '../port/steps.js'
import { withGates } from '../rules/budgets/gate-answers.js'
import {
  checkBeat,
  checkBy,
  checkClaim,
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
import { checkedLimits } from '../rules/lane-limits.js'
import { cancelRecord } from '../rules/operator-record.js'
import { RoomTurns } from '../rules/room-turns.js'
import { markStopped } from '../rules/runs/mark-stopped.js'
import { checkedShared, declarationOf, isShared } from '../rules/shared-limit.js'
import { taskIds } from '../rules/task-id.js'
import { Operations } from '../verbs/operations.js'
import { cancelTasks, Runs, redriveTasks } from '../verbs/runs.js'
import { type BackupOptions, backupSqlite } from './backup.js'
import { Browser } from './browse.js'
import { SqliteBudgets } from './budgets.js'
import { claim } from './claim.js'
import type { Connection } from './driver.js'
import { enqueue } from './enqueue.js'
import { GroupCommit } from './group-commit.js'
import { SqliteGroups } from './groups.js'
import { SqliteIdempotencyKeys } from './idempotency-keys.js'
import { LaneIds } from './lane-ids.js'
import { laneRules } from './lane-rules.js'
import { noteEnded } from './note-ended.js'
import { once } from './once.js'
import { refuseNewer } from './open-file.js'
import { discard, edit, limit, pause, share } from './operators.js'
import { sqlitePort } from './port.js'
import { PrunableCounts } from './prunable.js'
import { prune } from './prune.js'
import { pruneRuns } from './prune-runs.js'
import { sqliteAudit, sqlitePolicies } from './records.js'
import { APPLICATION_ID } from './schema.js'
import { settle } from './settle.js'
import { Standings } from './standing.js'
import { type RunStatements, runStatementsOf } from './statements/runs.js'
import { type Statements, statementsOf } from './statements.js'
import { Stats } from './stats.js'
import { synchronous } from './synchronous.js'
import { placeOf } from './token.js'
import { sqliteTransactions } from './transactions.js'
import { exportPage, importRows } from './transfer.js'
import { Watchers } from './watchers.js'
import { heartbeat, leave, liveWorkers } from './workers.js'

/** A store in a SQLite file, which any number of processes on one machine may share. */
export class SqliteStore implements Movable {
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
  readonly budgets: SqliteBudgets
  /** Failures with the same fingerprint. */
  readonly groups: SqliteGroups
  readonly #db: Connection
  readonly #runs: RunStatements
  readonly #tx: Tx
  readonly #port: Transactions
  readonly #path: string
  readonly #clock: Clock
  readonly #statements: Statements
  readonly #commits: GroupCommit
  readonly #browser: Browser
  readonly #standings: Standings
  readonly #stats: Stats
  readonly #prunable: PrunableCounts
  readonly #watchers: Watchers
  readonly #makeId = taskIds()
  readonly #lanes: LaneIds
  readonly #turns = new RoomTurns()
  /** The tasks of concurrent calls are added together: by itself, each costs three times as much. */
  readonly #addAll = (tasks: readonly NewTask[]): Enqueued[] =>
    enqueue(this.#statements, this.#lanes, tasks, this.#now(), this.#makeId)

  constructor(db: Connection, path: string, clock: Clock) {
    this.#db = db
    this.#path = path
    this.#clock = clock
    this.#statements = statementsOf(db)
    this.#lanes = new LaneIds(this.#statements)
    this.#commits = new GroupCommit(db, path, () => this.#lanes.clear())
    this.#browser = new Browser(db)
    this.#standings = new Standings(db)
    this.#stats = new Stats(db)
    this.#prunable = new PrunableCounts(db)
    this.#watchers = new Watchers(db)
    this.idempotency = new SqliteIdempotencyKeys(this.#statements, this.#commits, () => this.#now())
    this.#runs = runStatementsOf(db)
    const port = sqlitePort({
      db,
      statements: this.#statements,
      runs: this.#runs,
      lanes: this.#lanes,
      makeId: this.#makeId,
      now: () => this.#now(),
    })
    this.#tx = inSteps(port)
    this.#port = sqliteTransactions(this.#commits, this.#tx, () => this.#lanes.begin())
    this.runs = new Runs(this.#port, () => this.#watchers.ring())
    this.operations = new Operations(this.#port, ids => this.#moved(ids))
    this.budgets = new SqliteBudgets(
      this.#statements,
      this.#commits,
      () => this.#now(),
      () => this.#watchers.ring(),
    )
    this.groups = new SqliteGroups(db, this.#statements, this.#commits, () => this.#now())
    this.policies = sqlitePolicies(this.#statements, this.#commits)
    this.audit = sqliteAudit(this.#statements, this.#commits, () => this.#now())
  }

  async now(): Promise<number> {
    return this.#now()
  }

  async enqueue(tasks: readonly NewTask[]): Promise<Enqueued[]> {
    tasks.forEach(checkNewTask)
    if (tasks.length === 0) return []
    const [first] = tasks
    const added =
      first !== undefined && tasks.length === 1
        ? [await this.#commits.writeTogether(this.#addAll, first)]
        : await this.#commits.write(() => this.#addAll(tasks))
    if (added.some(({ isNew }) => isNew)) this.#watchers.ring()
    return added
  }

  /**
   * Enqueues within a transaction, so that its rows and the work that follows from them are committed together: that of
   * `transaction`, or one on a connection of the caller's own to the same file. Without a transaction it makes one.
   *
   * ```ts
   * await store.transaction(db => {
   *   db.prepare('INSERT INTO orders (id) VALUES (?)').run(42)
   *   store.enqueueIn(db, [{ kind: 'send-receipt', payload: '{"order":42}' }])
   * })
   * ```
   */
  enqueueIn(db: Connection, tasks: readonly NewTask[]): Enqueued[] {
    tasks.forEach(checkNewTask)
    if (db.pragma('application_id', { simple: true }) !== APPLICATION_ID)
      throw new StoreForeignError(db.name, `was not opened as '${this.#path}' is`)
    const statements = statementsOf(db)
    // Lanes are not cached, since the caller may roll back.
    const add = () => enqueue(statements, new LaneIds(statements), tasks, this.#now(), this.#makeId)
    // Changes of other connections are noticed; those of this one are not. It calls back after the commit.
    if (db === this.#db) this.#watchers.ring()
    return db.inTransaction ? add() : db.transaction(add).immediate()
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    checkClaim(request)
    return this.#commits.write(() => claim(this.#statements, request, this.#now(), this.#turns))
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    settlements.forEach(checkSettlement)
    if (settlements.length === 0) return []
    const settled = await this.#commits.write(() => {
      const now = this.#now()
      const all = settle(this.#statements, this.#lanes, settlements, now)
      const stopped = noteEnded(this.#runs, this.#tx, all.items)
      const laneOf = (n: number) => this.#lanes.lane(placeOf(settlements[n]?.token ?? '')?.lane ?? 0)
      return { ...all, results: withGates(markStopped(all.results, stopped, laneOf), all.gates) }
    })
    if (settled.isRoomMade) this.#watchers.ring()
    this.#watchers.ended(settlements)
    return settled.results
  }

  async heartbeat(beat: Beat): Promise<Heartbeat> {
    checkBeat(beat)
    const answer = await this.#commits.write(() => {
      // A worker ends once a newer release has migrated the store, whether or not its own statements still work there.
      refuseNewer(this.#db, this.#path)
      return heartbeat(this.#statements, beat, this.#now())
    })
    if (answer.rescued > 0) this.#watchers.ring()
    return answer
  }

  async cancelled(worker: string): Promise<string[]> {
    checkName('worker', worker)
    return this.#commits.read(() => this.#statements.cancelledOf.all(worker))
  }

  async leave(worker: string): Promise<void> {
    checkName('worker', worker)
    const count = await this.#commits.write(() => leave(this.#statements, worker, this.#now()))
    if (count > 0) this.#watchers.ring()
  }

  async workers(): Promise<WorkerRecord[]> {
    return this.#commits.read(() => liveWorkers(this.#statements, this.#now()))
  }

  async get(id: string): Promise<TaskRecord | undefined> {
    checkName('id', id)
    return this.#commits.read(() => this.#browser.get(id))
  }

  async standing(id: string, limit: number): Promise<TaskStanding | undefined> {
    checkName('id', id)
    checkPage({ limit })
    return this.#commits.read(this.#db.transaction(() => this.#standings.of(id, limit, this.#now())))
  }

  async list(filter: TaskFilter, page: PageRequest): Promise<Page<TaskRecord>> {
    checkFilter(filter)
    checkPage(page)
    return this.#commits.read(() => this.#browser.list(filter, page))
  }

  async count(filter: TaskFilter): Promise<Record<TaskStatus, number>> {
    checkFilter(filter)
    return this.#commits.read(() => this.#browser.count(filter))
  }

  async stats(): Promise<StoreStats> {
    return this.#commits.read(this.#db.transaction(() => this.#stats.read(this.#now())))
  }

  async countBy(filter: TaskFilter, fields: readonly CountField[]): Promise<TaskCount[]> {
    checkFilter(filter)
    checkCountFields(fields)
    return this.#commits.read(() => this.#browser.countBy(filter, fields))
  }

  async retried(since: number, page: PageRequest): Promise<Page<RetriedTask>> {
    checkTime('since', since)
    checkPage(page)
    return this.#commits.read(() => this.#browser.retried(since, page))
  }

  async ledger(id: string): Promise<LedgerRow[]> {
    checkName('id', id)
    const [rows = []] = await this.ledgers([id])
    return rows
  }

  async ledgers(ids: readonly string[]): Promise<LedgerRow[][]> {
    checkIds(ids)
    return this.#commits.read(() => this.#browser.ledgers(ids))
  }

  async payloads(ids: readonly string[]): Promise<(string | undefined)[]> {
    checkIds(ids)
    return this.#commits.read(() => this.#browser.payloads(ids))
  }

  async redrive(ids: readonly string[], by: By): Promise<string[]> {
    checkIds(ids)
    checkName('who', by?.who)
    checkBy(by)
    const moved = await this.#port.write(tx => redriveTasks(tx, ids, by, this.#now()))
    if (moved.length > 0) this.#watchers.ring()
    return moved
  }

  async cancel(ids: readonly string[], by?: By): Promise<string[]> {
    checkIds(ids)
    checkBy(by)
    const cancelled = await this.#port.write(function* (tx) {
      const now = yield* tx.clock.now()
      const ending = yield* cancelTasks(tx, ids, by, now)
      if (by !== undefined) yield* tx.audit.append(cancelRecord(ending, by, now), now)
      return ending
    })
    if (cancelled.length > 0) this.#moved(cancelled)
    return cancelled
  }

  async discard(ids: readonly string[], by: Required<By>): Promise<string[]> {
    checkIds(ids)
    checkDiscard(by)
    return this.#commits.write(() => discard(this.#statements, ids, by, this.#now()))
  }

  async edit(id: string, payload: string, by: By): Promise<boolean> {
    checkName('id', id)
    checkText('payload', payload)
    checkName('who', by?.who)
    checkBy(by)
    return this.#commits.write(() => edit(this.#statements, id, payload, by, this.#now()))
  }

  async lanes(filter: Partial<Lane> = {}): Promise<LaneRecord[]> {
    checkLanes(filter)
    return this.#commits.read(() => this.#browser.lanes(filter, this.#now()))
  }

  async laneRules(filter: Partial<Lane> = {}): Promise<LaneRules> {
    checkLanes(filter)
    return this.#commits.read(() => laneRules(this.#db, filter))
  }

  async pause(
    lanes: LaneSelection,
    { isPaused, who, why }: { readonly isPaused: boolean } & Partial<By>,
  ): Promise<void> {
    checkLaneSelection(lanes)
    checkPause({ isPaused, who, why })
    const by = who === undefined ? undefined : { who, why }
    await this.#commits.write(() => pause(this.#statements, lanes, isPaused, by, this.#now()))
    if (!isPaused) this.#watchers.ring()
  }

  async limit(lanes: LaneSelection, limits: LaneLimits | SharedLimits, by?: By): Promise<void> {
    checkLaneSelection(lanes)
    checkBy(by)
    const checked = isShared(limits) ? checkedShared(lanes, limits) : checkedLimits(limits)
    const declaration = declarationOf(lanes, limits)
    await this.#commits.write(() => {
      if (declaration !== undefined && this.#statements.declare.run(declaration).changes === 0) return
      if (isShared(checked)) share(this.#statements, lanes, checked, by, this.#now())
      else limit(this.#statements, this.#lanes, lanes, checked, by, this.#now())
    })
    this.#watchers.ring()
  }

  async prunable(keep: Retention): Promise<Prunable> {
    checkRetention(keep)
    return this.#commits.read(this.#db.transaction(() => this.#prunable.read(keep, this.#now())))
  }

  async prune(keep: Retention, limit: number): Promise<number> {
    checkRetention(keep)
    checkLimit(limit)
    return this.#commits.write(() => {
      const now = this.#now()
      const gone = pruneRuns({ tasks: this.#statements, runs: this.#runs }, keep, limit, now)
      // Lanes may be gone with it.
      this.#lanes.clear()
      return gone + prune(this.#statements, keep, limit - gone, now)
    })
  }

  /**
   * Runs a synchronous function within a transaction on this store's connection: committed when the function returns,
   * rolled back when it throws. Resolves after the commit. `enqueueIn` and `outbox.publish` take the connection.
   *
   * The function is called at most once. Meanwhile the process does nothing else, and no other process can write.
   *
   * ```ts
   * await store.transaction(db => {
   *   db.prepare('INSERT INTO orders (id) VALUES (?)').run(42)
   *   store.enqueueIn(db, [{ kind: 'send-receipt', payload: '{"order":42}' }])
   * })
   * ```
   */
  async transaction<T>(work: (db: Connection) => T): Promise<Awaited<T>> {
    const call = synchronous(work)
    return this.#commits.write(() => call(this.#db), { isRepeatable: false })
  }

  /**
   * Runs a synchronous function once per key, within a transaction on this store's connection.
   *
   * ```ts
   * await store.once('invoice-42', db => db.prepare('INSERT INTO invoices (id) VALUES (?)').run(42).changes)
   * ```
   */
  once<T>(key: string, work: (db: Connection) => T & Storable<T>, options?: OnceOptions): Promise<Awaited<T>>
  /** The contract's form, for code that runs on any store: the function's own type names the transaction. */
  once<T>(key: string, work: (tx: never) => T & Storable<T>, options?: OnceOptions): Promise<Awaited<T>>
  async once<T>(key: string, work: (tx: never) => T & Storable<T>, options: OnceOptions = {}): Promise<Awaited<T>> {
    checkFence(options)
    const call = synchronous(work)
    const run = () => once(this.#statements, key, () => call(this.#db as never), options, this.#now())
    return this.#commits.write(run, { isRepeatable: false })
  }

  /**
   * Copies the store to another file, while other processes may go on to read and write it. The copy is a consistent
   * snapshot, readable by its owner only, and appears under its name when it is complete.
   *
   * ```ts
   * await store.backup('/backups/redrive.db')
   * ```
   */
  backup(path: string, options?: BackupOptions): Promise<void> {
    return backupSqlite(this.#path, path, options)
  }

  exportPage(section: Section, page: PageRequest): Promise<Page<MovedRow>> {
    return this.#commits.read(this.#db.transaction(() => exportPage(this.#db, section, page)))
  }

  importRows(section: Section, rows: readonly MovedRow[]): Promise<number> {
    return this.#commits.write(() => importRows(this.#db, this.#lanes, section, rows))
  }

  watch(callback: () => void): () => void {
    return this.#watchers.add(callback)
  }

  watchEnd(id: string, callback: () => void): () => void {
    checkName('id', id)
    return this.#watchers.addEnd(id, callback)
  }

  async close(): Promise<void> {
    this.#watchers.stop()
    await this.#commits.close()
    this.#db.close()
  }

  #moved(ids: readonly string[]): void {
    this.#watchers.ring()
    this.#watchers.ended(ids.map(id => ({ id })))
  }

  #now(): number {
    return Math.floor(this.#clock.now())
  }
}
