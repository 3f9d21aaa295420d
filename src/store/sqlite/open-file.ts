import { closeSync, mkdirSync, openSync, readSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import type Database from 'better-sqlite3'
import {
  StoreDamagedError,
  StoreForbiddenError,
  StoreForeignError,
  StoreFullError,
  StoreNewerError,
  StoreReadOnlyError,
} from '../contract/errors.js'
import { type Connection, sqliteCode } from './driver.js'
import { waitingForLock } from './lock.js'
import { APPLICATION_ID, MIGRATIONS } from './schema.js'

const MAGIC = 'SQLite format 3\0'
const HEADER_BYTES = 100
const APPLICATION_ID_AT = 68

/** Files up to this size are read through when they are opened, which takes some tens of milliseconds. */
const CHECKED_BYTES = 32 * 2 ** 20

/** Opens a store's file, or makes one, with the latest schema. Refuses any other file without touching it. */
export async function openFile(driver: typeof Database, path: string): Promise<Connection> {
  const db = await opened(driver, path)
  try {
    await waitingForLock(path, () => migrate(db, path))
    const mode = await waitingForLock(path, () => db.pragma('journal_mode = WAL', { simple: true }))
    if (mode !== 'wal') throw new StoreForeignError(path, 'is on a file system without shared memory, which WAL needs')
    db.pragma('synchronous = FULL')
    // Shrink the WAL again after a burst.
    db.pragma(`journal_size_limit = ${64 * 2 ** 20}`)
    return db
  } catch (error) {
    db.close()
    throw explained(error, path)
  }
}

async function opened(driver: typeof Database, path: string): Promise<Connection> {
  try {
    if (sizeOf(path) > 0) await waitingForLock(path, () => inspect(driver, path))
    else create(path)
    // A timeout of 0: the driver would wait on the event loop.
    return new driver(path, { timeout: 0 })
  } catch (error) {
    throw explained(error, path)
  }
}

/**
 * Creates an empty file that its owner alone can read, since payloads may be private, and its folder likewise. SQLite gives
 * the WAL and its index the permissions of the file. What exists already keeps the permissions that it has. A link to a file
 * that does not exist is refused: whoever made it would choose where the file is created.
 */
function create(path: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  try {
    if (fileAt(path) === undefined) closeSync(openSync(path, 'ax', 0o600))
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    // Otherwise another process has created it.
    if (fileAt(path) === undefined) throw new StoreForeignError(path, 'is a link to a file that does not exist')
  }
}

/** Checks a file without writing to it. Throws unless it is a sound store. */
export function inspect(driver: typeof Database, path: string): void {
  const header = readHeader(path)
  if (header.toString('latin1', 0, MAGIC.length) !== MAGIC)
    throw new StoreForeignError(path, 'is not a SQLite database')
  if (header.length < HEADER_BYTES) throw new StoreDamagedError(path, 'it ends within its header')
  if (header.readUInt32BE(APPLICATION_ID_AT) !== APPLICATION_ID)
    throw new StoreForeignError(path, 'is the database of another application')

  let db: Connection | undefined
  try {
    db = new driver(path, { readonly: true, timeout: 0 })
    refuseNewer(db, path)
    const problem = sizeOf(path) > CHECKED_BYTES ? 'ok' : db.pragma('quick_check(1)', { simple: true })
    if (problem !== 'ok') throw new StoreDamagedError(path, String(problem))
  } catch (error) {
    throw explained(error, path)
  } finally {
    db?.close()
  }
}

/** Translates an error of SQLite's into one of the store's. */
function explained(error: unknown, path: string): unknown {
  if (isDamage(error)) return new StoreDamagedError(path, String((error as Error).message), { cause: error })
  if (isReadOnly(error)) return new StoreReadOnlyError(`'${path}'`, String((error as Error).message), { cause: error })
  if (isFull(error)) return new StoreFullError(`'${path}'`, { cause: error })
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code === 'EISDIR') return new StoreForeignError(path, 'is a folder', { cause: error })
  if (/^(EACCES|EPERM|EROFS|ENOTDIR|EEXIST|ENOENT|SQLITE_CANTOPEN|SQLITE_PERM|SQLITE_AUTH)/.test(code)) {
    const advice = 'Check that its folder exists, and that you may read and write both.'
    return new StoreForbiddenError(`'${path}'`, String((error as Error).message), { advice, cause: error })
  }
  return error
}

/** Whether SQLite says that a file is damaged. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(CORRUPT|NOTADB)/.test(sqliteCode(error))
}

/** Whether SQLite, or Node, says that the disk is full. */
export function isFull(error: unknown): boolean {
  const isNodes = error instanceof Error && 'code' in error && error.code === 'ENOSPC'
  return isNodes || /^SQLITE_(FULL|IOERR_SHMSIZE|IOERR_WRITE)/.test(sqliteCode(error))
}

/** Whether SQLite says that a file, or the folder beside it that WAL needs, may not be written to. */
export function isReadOnly(error: unknown): boolean {
  return sqliteCode(error).startsWith('SQLITE_READONLY')
}

/**
 * Brings the schema up to date. A new file gets its schema before it is switched to WAL mode, so that its header names
 * Redrive from the first byte on.
 */
export function migrate(db: Connection, path: string, migrations = MIGRATIONS): void {
  if (refuseNewer(db, path, migrations) === migrations.length) return
  const migrateAll = db.transaction(() => {
    // Check again under the lock: another process may have been faster.
    const version = refuseNewer(db, path, migrations)
    for (const migration of migrations.slice(version)) db.exec(migration)
    db.pragma(`application_id = ${APPLICATION_ID}`)
    db.pragma(`user_version = ${migrations.length}`)
  })
  migrateAll.immediate()
}

/** The schema version of a store. Throws if it is newer than this release. */
export function refuseNewer(db: Connection, path: string, migrations = MIGRATIONS): number {
  const version = Number(db.pragma('user_version', { simple: true }))
  if (version > migrations.length) throw new StoreNewerError(path, version, migrations.length)
  return version
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}

/** Identifies the file that a path names now; `undefined` if there is none. */
export function fileAt(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true })
  return found && `${found.dev} ${found.ino}`
}

function readHeader(path: string): Buffer {
  const file = openSync(path, 'r')
  try {
    const header = Buffer.alloc(HEADER_BYTES)
    return header.subarray(0, readSync(file, header))
  } finally {
    closeSync(file)
  }
}
