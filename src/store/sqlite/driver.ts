import type Database from 'better-sqlite3'
import { MissingPackageError } from '../../policy/index.js'

/** A connection of better-sqlite3. */
export type Connection = Database.Database

/** A statement of better-sqlite3, whose own type cannot be named in declarations. */
export interface Statement<Params, Row> {
  run(...params: ParamsList<Params>): { readonly changes: number; readonly lastInsertRowid: number | bigint }
  get(...params: ParamsList<Params>): Row | undefined
  all(...params: ParamsList<Params>): Row[]
  pluck(): this
  raw(): this
}
type ParamsList<Params> = Params extends readonly unknown[] ? Params : [Params]

/** A connection, as far as it prepares statements. */
export interface Preparer {
  prepare<Params extends readonly unknown[] | object = unknown[], Row = unknown>(sql: string): Statement<Params, Row>
}

/** Loads better-sqlite3 when the first SQLite store is opened. It is an optional dependency. */
export async function loadDriver(): Promise<typeof Database> {
  try {
    const { default: driver } = await import('better-sqlite3')
    // Its native part is loaded with the first connection, and may be missing or made for another Node.
    new driver(':memory:').close()
    return driver
  } catch (error) {
    throw new MissingPackageError('The SQLite store', 'better-sqlite3', '^12.11', { cause: error })
  }
}

/** SQLite's own code of an error, such as `SQLITE_BUSY_RECOVERY`; empty for errors of another kind. */
export function sqliteCode(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  return typeof code === 'string' && code.startsWith('SQLITE_') ? code : ''
}

/** Whether somebody else holds the lock. */
export function isBusy(error: unknown): boolean {
  return sqliteCode(error).startsWith('SQLITE_BUSY')
}
