import { existsSync, readFileSync } from 'node:fs'
import Database from 'better-sqlite3'

/** A synchronous call into SQLite, and for how long its thread slept in it. */
export interface Sleep {
  readonly sql: string
  readonly asleepMs: number
}

/** Observations over all calls into SQLite. */
export interface SqliteWatch {
  /** Calls that found the file locked. */
  busyCalls: number
  longestBusy: Sleep
  /** Calls that wait for a disk by their nature: a commit, and what is read when a file is opened. */
  longestOnDisk: Sleep
  longestOther: Sleep
  /** The longest that any connection would have waited for a lock by itself. */
  busyTimeoutMs: number
}

/** Where Linux says for how long a thread has been on a processor, and for how long it has waited for one. */
const SCHEDULE = '/proc/thread-self/schedstat'

const NEEDS_DISK = /^(COMMIT|PRAGMA (quick_check|journal_mode))/

/** Whether a sleep can be told from a busy machine here. */
export const canWatchSqlite = existsSync(SCHEDULE)

/**
 * Watches every statement that this process runs from now on. Time in which the thread was on a processor, or waited
 * for one, does not count: a busy machine takes that from anybody. What is left is a sleep in the kernel, for a lock or
 * a disk, known to a few milliseconds.
 */
export function watchSqlite(): SqliteWatch {
  const none = { sql: '', asleepMs: 0 }
  const watch: SqliteWatch = {
    busyCalls: 0,
    longestBusy: none,
    longestOnDisk: none,
    longestOther: none,
    busyTimeoutMs: 0,
  }
  const note = (sort: 'longestBusy' | 'longestOnDisk' | 'longestOther', sleep: Sleep) => {
    if (sleep.asleepMs > watch[sort].asleepMs) watch[sort] = sleep
  }
  const connections = new WeakSet<Database.Database>()
  const meet = (db: Database.Database) => {
    if (connections.has(db)) return
    connections.add(db)
    watch.busyTimeoutMs = Math.max(watch.busyTimeoutMs, Number(db.pragma('busy_timeout', { simple: true })))
  }

  const prototype = statementPrototype()
  for (const verb of ['run', 'get', 'all'] as const) {
    const original = prototype[verb]
    prototype[verb] = function (...params: unknown[]) {
      meet(this.database)
      // The time on the wall is read between the others: what happens in between can only make a sleep look shorter.
      const awakeBefore = awakeMs()
      const wallBefore = performance.now()
      const slept = () => {
        const wallMs = performance.now() - wallBefore
        return { sql: this.source, asleepMs: wallMs - (awakeMs() - awakeBefore) }
      }
      try {
        const result = original.apply(this, params)
        note(NEEDS_DISK.test(this.source) ? 'longestOnDisk' : 'longestOther', slept())
        return result
      } catch (error) {
        if (String((error as { code?: unknown }).code).startsWith('SQLITE_BUSY')) {
          watch.busyCalls++
          note('longestBusy', slept())
        }
        throw error
      }
    }
  }
  return watch
}

type AnyStatement = Database.Statement<unknown[]>

/** All statements of better-sqlite3 share it. */
function statementPrototype(): Record<'run' | 'get' | 'all', (this: AnyStatement, ...params: unknown[]) => unknown> {
  const db = new Database(':memory:')
  const prototype = Object.getPrototypeOf(db.prepare('SELECT 1'))
  db.close()
  return prototype
}

function awakeMs(): number {
  const [onProcessor = 0, waitingForOne = 0] = readFileSync(SCHEDULE, 'utf8').split(' ').map(Number)
  return (onProcessor + waitingForOne) / 1e6
}
