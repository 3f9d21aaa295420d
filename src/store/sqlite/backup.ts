import { randomBytes } from 'node:crypto'
import { open, rename, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { OptionError } from '../../policy/index.js'
import { StoreFullError } from '../contract/errors.js'
import { syncFolder } from '../sync-folder.js'
import { type Connection, loadDriver } from './driver.js'
import { waitingForLock } from './lock.js'
import { fileAt, inspect, isFull } from './open-file.js'

/** Options of a backup. */
export interface BackupOptions {
  /** Whether an existing file is replaced. Default false: then it is an `OptionError`. */
  readonly overwrite?: boolean
  /** Stops the backup. It rejects with the signal's reason, and leaves nothing behind. */
  readonly signal?: AbortSignal
  /** Called with the number of pages copied so far, and of all pages. */
  readonly onProgress?: (done: number, total: number) => void
}

/** The event loop turns after this many pages: a worker in this process has other things to do too. */
const PAGES_AT_ONCE = 250

/**
 * Copies the store in a file to another file, while other processes may read and write it. The copy is the store at one
 * moment, in one file. The store is only read: even an older one is not upgraded.
 */
export async function backupSqlite(from: string, to: string, options: BackupOptions = {}): Promise<void> {
  const [source, target] = [resolve(from), resolve(to)]
  if (fileAt(target) !== undefined) {
    // The copy would take the place of the store, and whatever has that open would write to nowhere.
    if (fileAt(target) === fileAt(source)) throw new OptionError('path', `'${to}' is the store itself.`)
    if (!options.overwrite)
      throw new OptionError('path', `'${to}' exists already. Name another file, or pass { overwrite: true }.`)
    checkIsClosed(target, to)
  }
  const driver = await loadDriver()
  await waitingForLock(source, () => inspect(driver, source))
  const part = `${target}.part-${randomBytes(4).toString('hex')}`
  // Payloads may be private.
  await (await open(part, 'wx', 0o600)).close()
  try {
    const db = new driver(source, { readonly: true, timeout: 0 })
    try {
      await waitingForLock(source, () => beginSnapshot(db))
      await copy(db, part, options)
    } finally {
      db.close()
    }
    await rename(part, target)
    await syncFolder(target)
  } catch (error) {
    for (const file of [part, `${part}-journal`]) await rm(file, { force: true })
    throw isFull(error) ? new StoreFullError(`'${to}'`, { cause: error }) : error
  }
}

/** SQLite would replay the log of the old file over the copy. */
function checkIsClosed(target: string, name: string): void {
  const log = [`${target}-wal`, `${target}-journal`].find(file => fileAt(file) !== undefined)
  if (log === undefined) return
  const problem = `'${name}' is open, or was not closed: its log '${log}' is still there.`
  throw new OptionError('path', `${problem} Close whatever uses it and open it once, or name another file.`)
}

/** Begins to read. Without it, the copy would start anew whenever another connection commits, and might never end. */
function beginSnapshot(db: Connection): void {
  if (!db.inTransaction) db.exec('BEGIN')
  db.pragma('schema_version')
}

async function copy(db: Connection, path: string, { signal, onProgress }: BackupOptions): Promise<void> {
  const { totalPages, remainingPages } = await db.backup(path, {
    progress: ({ totalPages, remainingPages }) => {
      signal?.throwIfAborted()
      onProgress?.(totalPages - remainingPages, totalPages)
      return PAGES_AT_ONCE
    },
  })
  onProgress?.(totalPages - remainingPages, totalPages)
}
