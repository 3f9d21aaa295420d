import { openPostgres, type PostgresOptions, type PostgresStore } from 'redrive/postgres'
import { openSqlite, type SqliteStore } from 'redrive/sqlite'

const SQLITE = 'sqlite:'

/** Opens the store that a url names: `sqlite:…` or `postgres://…`. */
export function openStore(url: string, options?: PostgresOptions): Promise<SqliteStore | PostgresStore> {
  return url.startsWith(SQLITE) ? openSqlite(url.slice(SQLITE.length)) : openPostgres(url, options)
}
