import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { OptionError } from '../../policy/index.js'
import { checkOptions, type KnownOptions } from '../../policy/internal.js'
import { type Clock, systemClock } from '../../time/index.js'
import { loadDriver } from './driver.js'
import { openFile } from './open-file.js'
import { SqliteStore } from './sqlite-store.js'
import { sqliteFile } from './store-path.js'

/** Options of a SQLite store. */
export interface SqliteOptions {
  /** Whether to create the store if there is none. With `false`, a missing store is an `OptionError`. Default `true`. */
  readonly create?: boolean | undefined
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock | undefined
}

const SQLITE_OPTIONS: KnownOptions<SqliteOptions> = { create: '', clock: 'object' }

/** Opens the store in a file, with all its verbs. */
export async function openSqlite(path: string, options: SqliteOptions = {}): Promise<SqliteStore> {
  checkOptions('openSqlite()', options, SQLITE_OPTIONS)
  const { create = true, clock = systemClock } = options
  // The process may change its working directory while the store is open.
  const file = resolve(sqliteFile(path))
  if (!create && !existsSync(file)) throw new OptionError('path', `There is no store at '${file}'.`)
  return new SqliteStore(await openFile(await loadDriver(), file), file, clock)
}
