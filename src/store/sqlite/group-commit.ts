import {
  StoreClosedError,
  StoreDamagedError,
  StoreFullError,
  StoreReadOnlyError,
  StoreRefusedError,
  StoreReplacedError,
  StoreUnavailableError,
} from '../contract/errors.js'
import { type Connection, sqliteCode } from './driver.js'
import { waitingForLock } from './lock.js'
import { fileAt, isDamage, isFull, isReadOnly, refuseNewer } from './open-file.js'

/** Work to do within a transaction, and the promise that waits for it. */
interface Job {
  /** Does the work of this job, and of the next ones that have the same function. Returns a result for each. */
  readonly work: (inputs: readonly unknown[]) => readonly unknown[]
  readonly input: unknown
  readonly isRepeatable: boolean
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** A transaction that has run this long takes no further jobs, so that the event loop can turn. */
const LONGEST_MS = 20

/** Maximum number of jobs per call, so that one call takes no longer than that. */
const MOST_TOGETHER = 1000

/**
 * Collects the jobs of one turn of the event loop into one transaction, since a commit waits for the disk and costs
 * more than most jobs. Each job is atomic by itself: one that throws is undone and fails alone. Its promise settles
 * after the commit. If the transaction itself fails, on a full disk for example, all its jobs fail and nothing is
 * written.
 *
 * Savepoints would let a job fail alone, but they copy every page that is written. Jobs hardly ever throw, so a
 * transaction runs without them. When a job does throw, the transaction is rolled back and run again with savepoints.
 */
export class GroupCommit {
  readonly #db: Connection
  readonly #path: string
  /** The name of the store in errors. */
  readonly #name: string
  readonly #file: string | undefined
  readonly #onRollback: () => void
  readonly #begin
  readonly #commit
  readonly #rollback
  readonly #savepoint
  readonly #release
  readonly #rollbackTo
  readonly #queue: Job[] = []
  #flushing: Promise<void> | undefined
  #isClosed = false
  #isGuarded = false

  constructor(db: Connection, path: string, onRollback: () => void) {
    this.#db = db
    this.#path = path
    this.#name = `'${path}'`
    this.#file = fileAt(path)
    this.#onRollback = onRollback
    this.#begin = db.prepare('BEGIN IMMEDIATE')
    this.#commit = db.prepare('COMMIT')
    this.#rollback = db.prepare('ROLLBACK')
    this.#savepoint = db.prepare('SAVEPOINT job')
    this.#release = db.prepare('RELEASE job')
    this.#rollbackTo = db.prepare('ROLLBACK TO job')
  }

  /** Runs work within the next transaction. Work that is not repeatable is never called again after a rollback. */
  write<T>(work: () => T, { isRepeatable = true }: { readonly isRepeatable?: boolean } = {}): Promise<T> {
    return this.#add(() => [work()], undefined, isRepeatable)
  }

  /**
   * Runs work within the next transaction. Calls with the same function that follow each other are one call of it, with the
   * inputs of all: for a little work that is called for often.
   */
  writeTogether<Input, T>(work: (inputs: readonly Input[]) => readonly T[], input: Input): Promise<T> {
    return this.#add(work as Job['work'], input, true)
  }

  /** Reads committed data. */
  async read<T>(work: () => T): Promise<T> {
    if (this.#isClosed) throw new StoreClosedError(this.#name)
    try {
      return await waitingForLock(this.#path, () => {
        if (this.#isClosed) throw new StoreClosedError(this.#name)
        return work()
      })
    } catch (error) {
      throw this.#explain(error)
    }
  }

  /** Takes no more calls. Resolves when earlier calls have ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#flushing
  }

  #add<T>(work: Job['work'], input: unknown, isRepeatable: boolean): Promise<T> {
    if (this.#isClosed) return Promise.reject(new StoreClosedError(this.#name))
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ work, input, isRepeatable, resolve: resolve as (value: unknown) => void, reject })
      this.#flushing ??= this.#flush()
    })
  }

  async #flush(): Promise<void> {
    while (this.#queue.length > 0) {
      // All calls of this turn of the event loop share the transaction.
      await new Promise(resolve => setImmediate(resolve))
      try {
        await waitingForLock(this.#path, () => this.#start())
      } catch (error) {
        for (const { reject } of this.#queue.splice(0)) reject(this.#explain(error))
        continue
      }
      this.#runTransaction()
    }
    this.#flushing = undefined
  }

  #start(): void {
    // SQLite keeps writing to a file that was removed or replaced, and those writes are lost in silence.
    if (fileAt(this.#path) !== this.#file) throw new StoreReplacedError(this.#path)
    if (this.#db.inTransaction) this.#rollback.run()
    this.#begin.run()
  }

  #undo(): void {
    try {
      if (this.#db.inTransaction) this.#rollback.run()
    } catch {
      // A query that a caller's function left open keeps the connection busy. The next transaction tries again.
    }
  }

  #runTransaction(): void {
    const settle: (() => void)[] = []
    const started = performance.now()
    const isGuarded = this.#isGuarded || this.#queue.some(({ isRepeatable }) => !isRepeatable)
    this.#isGuarded = false
    let done = 0
    try {
      while (done < this.#queue.length && (done === 0 || performance.now() - started <= LONGEST_MS)) {
        const jobs = this.#alikeFrom(done, isGuarded ? 1 : MOST_TOGETHER)
        done += jobs.length
        settle.push(isGuarded ? this.#runGuarded(jobs) : run(jobs))
      }
      this.#commit.run()
    } catch (error) {
      this.#fail(error, done)
      return
    }
    this.#queue.splice(0, done)
    for (const tell of settle) tell()
  }

  /** The job at a place of the queue, and those behind it that are done together with it. */
  #alikeFrom(first: number, most: number): readonly Job[] {
    const work = this.#queue[first]?.work
    let end = first + 1
    while (end - first < most && this.#queue[end]?.work === work) end++
    return this.#queue.slice(first, end)
  }

  /** Rolls back, and rejects the jobs that were done, unless one of several has failed by itself. */
  #fail(error: unknown, done: number): void {
    const isWhole = !this.#db.inTransaction || isFatal(error)
    this.#undo()
    this.#onRollback()
    // The jobs stay in the queue, for a transaction with savepoints in which only the one that threw fails.
    if (!isWhole && done > 1) this.#isGuarded = true
    else for (const { reject } of this.#queue.splice(0, done)) reject(this.#explain(error))
  }

  /** Runs jobs within a savepoint. Throws only errors that end the whole transaction. */
  #runGuarded(jobs: readonly Job[]): () => void {
    this.#savepoint.run()
    try {
      const tell = run(jobs)
      this.#release.run()
      return tell
    } catch (error) {
      if (!this.#db.inTransaction || isFatal(error)) throw error
      this.#rollbackTo.run()
      this.#release.run()
      this.#onRollback()
      return () => {
        for (const { isRepeatable, reject } of jobs) reject(isRepeatable ? this.#explain(error) : error)
      }
    }
  }

  #explain(error: unknown): unknown {
    if (isFull(error)) return new StoreFullError(this.#name, { cause: error })
    const problem = error instanceof Error ? error.message : String(error)
    if (isDamage(error)) return new StoreDamagedError(this.#path, problem, { cause: error })
    if (isReadOnly(error)) return new StoreReadOnlyError(this.#name, problem, { cause: error })
    if (/^SQLITE_(IOERR|CANTOPEN|NOMEM|PROTOCOL)/.test(sqliteCode(error)))
      return new StoreUnavailableError(this.#name, problem, { cause: error, wasSent: true })
    if (/^SQLITE_(TOOBIG|CONSTRAINT|MISMATCH|RANGE)/.test(sqliteCode(error)))
      return new StoreRefusedError(this.#name, problem, { cause: error })
    return sqliteCode(error) === 'SQLITE_ERROR' ? this.#whyUnknown(error) : error
  }

  /** A table or a column that is not there: a newer release may have migrated the store since it was opened. */
  #whyUnknown(error: unknown): unknown {
    try {
      refuseNewer(this.#db, this.#path)
      return error
    } catch (newer) {
      return newer
    }
  }
}

/** Runs jobs that have the same work, and returns a function that resolves their promises after the commit. */
function run(jobs: readonly Job[]): () => void {
  const values = jobs[0]?.work(jobs.map(({ input }) => input)) ?? []
  return () => {
    for (const [n, { resolve }] of jobs.entries()) resolve(values[n])
  }
}

/** After these errors SQLite may have rolled back by itself, or will fail again at the commit. */
function isFatal(error: unknown): boolean {
  return /^SQLITE_(FULL|IOERR|CORRUPT|NOTADB|NOMEM|READONLY|BUSY|PROTOCOL|INTERRUPT)/.test(sqliteCode(error))
}
