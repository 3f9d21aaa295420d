import type { Pool } from 'pg'
import type { Store } from '../contract/public-store.js'
import { openPostgres as open, type PostgresOptions } from './open-postgres.js'
import type { PostgresStore as Implementation } from './postgres-store.js'

/** A store in a schema of a PostgreSQL database, which any number of machines may share. */
export interface PostgresStore
  extends Omit<Store, 'once'>,
    Pick<Implementation, 'once' | 'onceIn' | 'transaction' | 'enqueueIn' | 'completeIn'> {}

/**
 * Opens the store in a PostgreSQL database, by its URL or on a pool of your own, which closing the store does not end. Needs
 * the package `pg`.
 *
 * ```ts
 * const store = await openPostgres('postgres://localhost/app')
 * ```
 *
 * Takes a URL as the command takes it: `postgres://localhost/app?schema=jobs`. The option `schema` comes before it.
 */
export function openPostgres(at: string | Pool, options?: PostgresOptions): Promise<PostgresStore> {
  return open(at, options)
}
