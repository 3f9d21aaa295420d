import type pg from 'pg'
import { MissingPackageError } from '../../policy/index.js'

/**
 * A connection, or a transaction on one, of any client that has `query(text, values)`: a client of `pg`, or what adapts
 * another library's. It answers with the rows, or with an object that has them as `rows`.
 */
export interface SqlClient {
  /** Runs a statement with `$1`, `$2`, … in the place of its values. */
  query(text: string, values: unknown[]): Promise<readonly unknown[] | { readonly rows: readonly unknown[] }>
}

/** A pool of `pg`. */
export type Pool = pg.Pool

/** Loads `pg` when it is needed: who opens no PostgreSQL store need not have it. */
export async function loadDriver(): Promise<typeof pg> {
  try {
    return (await import('pg')).default
  } catch (error) {
    throw new MissingPackageError('The PostgreSQL store', 'pg', '^8.23', { cause: error })
  }
}
