import {
  StoreClosedError,
  StoreDamagedError,
  StoreFullError,
  StoreReadOnlyError,
  StoreRefusedError,
  StoreReplacedError,
  StoreUnavailableError,
} from '../errors.js'
import { type Connection, sqliteCode } from './driver.js'
import { waitingForLock } from './lock.js'
import { fileAt, isDamage, isFull, isReadOnly } from './open-file.js'

/** Something to be done within a transaction, and who waits for it. */
interface Job {
  readonly work: () => unknown
  readonly isRepeatable: boolean
  readonly resolve: (value: unknown) => void
  readonly reject: (error: unknown) => void
}

/** After so long a transaction takes no further jobs: the event loop has other things to do too. */
const LONGEST_MS = 20

/**
 * Collects the jobs of one turn of the event loop into one transaction, since a commit waits for the disk and costs
 * more than most jobs. Each job is atomic by itself: one that throws is undone and fails alone. Its promise settles
 * after the commit. When the transaction itself fails, for want of room say, all that it did fails with it, and nothing
 * of it is written.
 *
 * Savepoints would let a job fail alone, but they copy every page that is written. Since jobs hardly ever throw, a
 * transaction does without, and when one does throw it is rolled back and done again with them.
 */
export class GroupCommit {
  readonly #db: Connection
  readonly #path: string
  /** As errors name it. */
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

  /** Does something within the next transaction. What is not repeatable is not called again after a rollback. */
  write<T>(work: () => T, { isRepeatable = true }: { readonly isRepeatable?: boolean } = {}): Promise<T> {
    if (this.#isClosed) return Promise.reject(new StoreClosedError(this.#name))
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ work, isRepeatable, resolve: resolve as (value: unknown) => void, reject })
      this.#flushing ??= this.#flush()
    })
  }

  /** Reads what is committed. */
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

  /** Takes no more calls, and resolves when those before it have ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.#flushing
  }

  async #flush(): Promise<void> {
    while (this.#queue.length > 0) {
      // Calls that are made in this turn, or by what runs in it, come along.
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
    // SQLite goes on with a file that was removed or replaced, and what it writes there is lost without a word.
    if (fileAt(this.#path) !== this.#file) throw new StoreReplacedError(this.#path)
    if (this.#db.inTransaction) this.#rollback.run()
    this.#begin.run()
  }

  #undo(): void {
    try {
      if (this.#db.inTransaction) this.#rollback.run()
    } catch {
      // A query that a caller's function has left open keeps the connection busy. The next to start tries again.
    }
  }

  #runTransaction(): void {
    const settle: (() => void)[] = []
    const started = performance.now()
    const isGuarded = this.#isGuarded || this.#queue.some(({ isRepeatable }) => !isRepeatable)
    this.#isGuarded = false
    let done = 0
    try {
      for (const job of this.#queue) {
        if (done > 0 && performance.now() - started > LONGEST_MS) break
        done++
        settle.push(isGuarded ? this.#runGuarded(job) : run(job))
      }
      this.#commit.run()
    } catch (error) {
      this.#fail(error, done)
      return
    }
    this.#queue.splice(0, done)
    for (const tell of settle) tell()
  }

  /** Rolls back, and rejects the jobs that were done, unless one of several has failed by itself. */
  #fail(error: unknown, done: number): void {
    const isWhole = !this.#db.inTransaction || isFatal(error)
    this.#undo()
    this.#onRollback()
    // The jobs stay in the queue, for a transaction in which the one that threw fails alone.
    if (!isWhole && done > 1) this.#isGuarded = true
    else for (const { reject } of this.#queue.splice(0, done)) reject(this.#explain(error))
  }

  /** Throws only what ends the whole transaction. */
  #runGuarded(job: Job): () => void {
    this.#savepoint.run()
    try {
      const tell = run(job)
      this.#release.run()
      return tell
    } catch (error) {
      if (!this.#db.inTransaction || isFatal(error)) throw error
      this.#rollbackTo.run()
      this.#release.run()
      this.#onRollback()
      return () => job.reject(job.isRepeatable ? this.#explain(error) : error)
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
    return error
  }
}

/** Does a job, and returns what tells of it once it is committed. */
function run({ work, resolve }: Job): () => void {
  const value = work()
  return () => resolve(value)
}

/** After these errors SQLite may have rolled back by itself, or will fail again at the commit. */
function isFatal(error: unknown): boolean {
  return /^SQLITE_(FULL|IOERR|CORRUPT|NOTADB|NOMEM|READONLY|BUSY|PROTOCOL|INTERRUPT)/.test(sqliteCode(error))
}
