import type { PipelineStore } from 'redrive/pipeline'
import { openPostgres, type PostgresOptions, type PostgresStore } from 'redrive/postgres'
import { openSqlite, type SqliteStore } from 'redrive/sqlite'

const SQLITE = 'sqlite:'

/** Opens the store that a url names: `sqlite:…` or `postgres://…`. */
export function openStore(url: string, options?: PostgresOptions): Promise<SqliteStore | PostgresStore> {
  return url.startsWith(SQLITE) ? openSqlite(url.slice(SQLITE.length)) : openPostgres(url, options)
}

/** Opens a store that keeps runs. */
export async function openRunStore(url: string): Promise<PipelineStore> {
  const store = await openStore(url)
  if ('runs' in store) return store
  throw new TypeError(`The store at ${url} keeps no runs.`)
}
