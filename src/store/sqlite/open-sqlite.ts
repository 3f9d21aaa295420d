import { resolve } from 'node:path'
import { OptionError } from '../../policy/index.js'
import { type Clock, systemClock } from '../../time/index.js'
import { loadDriver } from './driver.js'
import { openFile } from './open-file.js'
import { SqliteStore } from './sqlite-store.js'

/** Options of a SQLite store. */
export interface SqliteOptions {
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
}

/**
 * Opens the store in a file, which is made if there is none. Needs the package `better-sqlite3`.
 *
 * ```ts
 * const store = await openSqlite('.redrive/redrive.db')
 * ```
 *
 * A file that is not a store, is damaged or was written by a newer Redrive is refused, and left as it is.
 */
export async function openSqlite(path: string, { clock = systemClock }: SqliteOptions = {}): Promise<SqliteStore> {
  if (path === '' || path === ':memory:') {
    throw new OptionError(
      'path',
      `'${path}' is no file. Give a path; what need not outlive the process is a MemoryStore.`,
    )
  }
  // The process may change its working directory while the store is open.
  const file = resolve(path)
  return new SqliteStore(await openFile(await loadDriver(), file), file, clock)
}
