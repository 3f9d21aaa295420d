import type { Store } from '../contract/public-store.js'
import { openSqlite as open, type SqliteOptions } from './open-sqlite.js'
import type { SqliteStore as Implementation } from './sqlite-store.js'

/** A store in a SQLite file, which any number of processes on one machine may share. */
export interface SqliteStore
  extends Omit<Store, 'once'>,
    Pick<Implementation, 'once' | 'transaction' | 'enqueueIn' | 'backup'> {}

/**
 * Opens the store in a file, which is created if there is none. Needs the package `better-sqlite3`.
 *
 * ```ts
 * const store = await openSqlite('.redrive/redrive.db')
 * ```
 *
 * Takes a path, or a URL as the command takes it: `sqlite:./redrive.db`, `sqlite:///var/lib/redrive.db`.
 * A file that is not a store, is damaged or was written by a newer Redrive is refused, and left as it is.
 */
export function openSqlite(path: string, options?: SqliteOptions): Promise<SqliteStore> {
  return open(path, options)
}
