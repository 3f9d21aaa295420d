import type { PostgresOptions } from 'redrive/postgres'
import { openPostgres, type PostgresStore } from '../../src/store/postgres/internal.js'
import { openSqlite, type SqliteStore } from '../../src/store/sqlite/internal.js'

const SQLITE = 'sqlite:'

/** Opens the store that a url names: `sqlite:…` or `postgres://…`. */
export function openStore(url: string, options?: PostgresOptions): Promise<SqliteStore | PostgresStore> {
  return url.startsWith(SQLITE) ? openSqlite(url.slice(SQLITE.length)) : openPostgres(url, options)
}
