import type pg from 'pg'
import { MissingPackageError } from '../../policy/index.js'

/**
 * A connection, or a transaction on one, of any library that offers `query(text, values)`: a client of `pg`, or an adapter
 * of your own. It answers with the rows, or with an object that has them as `rows`.
 */
export interface SqlClient {
  /** Runs a statement whose values are written as `$1`, `$2`, …. */
  query(text: string, values: unknown[]): Promise<readonly unknown[] | { readonly rows: readonly unknown[] }>
}

/** A pool of `pg`. */
export type Pool = pg.Pool

/** Loads `pg` when it is needed, so that only users of a PostgreSQL store have to install it. */
export async function loadDriver(): Promise<typeof pg> {
  try {
    return (await import('pg')).default
  } catch (error) {
    throw new MissingPackageError('The PostgreSQL store', 'pg', '^8.23', { cause: error })
  }
}
