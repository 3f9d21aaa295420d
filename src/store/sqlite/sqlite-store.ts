import type { Clock } from '../../time/index.js'
import { StoreForeignError } from '../contract/errors.js'
import type { Page, PageRequest } from '../contract/list.js'
import type { Storable } from '../contract/storable.js'
import type { OnceOptions } from '../contract/store.js'
import type { Enqueued, NewTask } from '../contract/task.js'
import type { Movable, MovedRow, Section } from '../move/movable.js'
import { inSteps } from '../port/steps.js'
import { checkFence, checkNewTask } from '../rules/check.js'
import { taskIds } from '../rules/task-id.js'
import { BaseStore } from '../verbs/base-store.js'
import { type BackupOptions, backupSqlite } from './backup.js'
import type { Connection } from './driver.js'
import { enqueue } from './enqueue.js'
import { GroupCommit } from './group-commit.js'
import { SqliteIdempotencyKeys } from './idempotency-keys.js'
import { LaneIds } from './lane-ids.js'
import { once } from './once.js'
import { type SqliteParts, sqlitePort } from './port.js'
import { sqliteAudit, sqlitePolicies } from './records.js'
import { APPLICATION_ID } from './schema.js'
import { runStatementsOf } from './statements/runs.js'
import { statementsOf } from './statements.js'
import { synchronous } from './synchronous.js'
import { sqliteTransactions } from './transactions.js'
import { exportPage, importRows } from './transfer.js'
import { SqliteVerbs } from './verbs.js'
import { Watchers } from './watchers.js'

/** A store in a SQLite file, which any number of processes on one machine may share. */
export class SqliteStore extends BaseStore implements Movable {
  readonly #parts: SqliteParts
  readonly #commits: GroupCommit
  readonly #watchers: Watchers

  constructor(db: Connection, path: string, clock: Clock) {
    const now = () => Math.floor(clock.now())
    const statements = statementsOf(db)
    const lanes = new LaneIds(statements)
    const commits = new GroupCommit(db, path, () => lanes.clear())
    const watchers = new Watchers(db)
    const parts = { db, path, statements, runs: runStatementsOf(db), lanes, makeId: taskIds(), now }
    const tx = inSteps(sqlitePort(parts))
    super({
      verbs: new SqliteVerbs(parts, commits, watchers, tx),
      transactions: sqliteTransactions(commits, tx, () => lanes.begin()),
      bell: watchers,
      idempotency: new SqliteIdempotencyKeys(statements, commits, now),
      policies: sqlitePolicies(statements, commits),
      audit: sqliteAudit(statements, commits, now),
    })
    this.#parts = parts
    this.#commits = commits
    this.#watchers = watchers
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
      throw new StoreForeignError(db.name, `was not opened as '${this.#parts.path}' is`)
    const statements = statementsOf(db)
    const { makeId, now } = this.#parts
    // Lanes are not cached, since the caller may roll back.
    const add = () => enqueue(statements, new LaneIds(statements), tasks, now(), makeId)
    // Changes of other connections are noticed; those of this one are not. It calls back after the commit.
    if (db === this.#parts.db) this.#watchers.ring()
    return db.inTransaction ? add() : db.transaction(add).immediate()
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
    return this.#commits.write(() => call(this.#parts.db), { isRepeatable: false })
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
    const { db, statements, now } = this.#parts
    const run = () => once(statements, key, () => call(db as never), options, now())
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
    return backupSqlite(this.#parts.path, path, options)
  }

  exportPage(section: Section, page: PageRequest): Promise<Page<MovedRow>> {
    const { db } = this.#parts
    return this.#commits.read(db.transaction(() => exportPage(db, section, page)))
  }

  importRows(section: Section, rows: readonly MovedRow[]): Promise<number> {
    const { db, lanes } = this.#parts
    return this.#commits.write(() => importRows(db, lanes, section, rows))
  }

  async close(): Promise<void> {
    this.#watchers.stop()
    await this.#commits.close()
    this.#parts.db.close()
  }
}
