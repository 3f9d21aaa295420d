import { statSync } from 'node:fs'
import { isAbsolute, relative, resolve } from 'node:path'
import { commandLine } from '../../../policy/internal.js'
import { openPostgres, type PostgresStore } from '../../../store/postgres/internal.js'
import { openSqlite, type SqliteStore, sqliteFile } from '../../../store/sqlite/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import type { Environment } from '../../environment.js'
import { CommandError, UsageError } from '../../errors.js'

export const DEFAULT_STORE = 'sqlite:./.redrive/redrive.db'

/** The store: `--store`, or else REDRIVE_STORE, or else the default. */
export interface StoreOptions {
  readonly store?: string
}

/** A store that outlives its process. */
export type DurableStore = PostgresStore | SqliteStore

/** Whether a flag or the configuration names a store. Some commands work without one, too. */
export function isStoreNamed({ store }: StoreOptions, { env }: Environment): boolean {
  return Boolean(store ?? env.REDRIVE_STORE)
}

/** The URL of the store that a command is for. */
export function storeUrl({ store }: StoreOptions, environment: Environment): string {
  return store ?? projectUrl(environment.env.REDRIVE_STORE || DEFAULT_STORE, environment)
}

/** A URL from a variable, the configuration or a default: the path of a file is relative to the folder of the project. */
export function projectUrl(url: string, { cwd, project = cwd }: Environment): string {
  if (project === cwd || !/^sqlite:(?!\/|:|$)/i.test(url)) return url
  return `sqlite:${resolve(project, url.slice('sqlite:'.length))}`
}

/** Opens the store. Creates a missing store if it `mayCreate`, and otherwise throws. */
export function openStore(
  options: StoreOptions,
  environment: Environment,
  how: { readonly mayCreate: boolean },
): Promise<DurableStore> {
  return openStoreUrl(storeUrl(options, environment), environment, how)
}

/** Opens the store that a URL names. */
export async function openStoreUrl(
  url: string,
  { cwd }: Environment,
  { mayCreate }: { readonly mayCreate: boolean },
): Promise<DurableStore> {
  switch (schemeOf(url)) {
    case 'sqlite':
      return openSqliteUrl(url, cwd, mayCreate)
    case 'postgres':
    case 'postgresql':
      return openPostgres(url, { migrate: mayCreate })
    default:
      throw unsupported(url)
  }
}

/** Opens an existing store, and closes it afterwards. */
export async function withStore<T>(
  options: StoreOptions,
  environment: Environment,
  use: (store: DurableStore) => Promise<T>,
): Promise<T> {
  const store = await openStore(options, environment, { mayCreate: false })
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

/** The error of a URL that names no store. The rest of a URL may hold a password, so it is not repeated. */
export function unsupported(url: string): UsageError {
  return new UsageError(
    `Stores of the kind '${schemeOf(url)}:' are not supported. Pass a URL such as '${DEFAULT_STORE}' or 'postgres://host/database'.`,
  )
}

/** The scheme of a store's URL, in lower case. */
export function schemeOf(url: string): string {
  const [, scheme] = /^([a-z][a-z0-9+.-]+):/i.exec(url) ?? []
  if (scheme === undefined) {
    // A text such as 'host=db password=…' is not a path, and is not repeated.
    const isPath = !/[=@\s]/.test(url)
    const known = `Pass one such as '${DEFAULT_STORE}' or 'postgres://host/database'.`
    const advice = isPath ? `Did you mean 'sqlite:${url}'?` : known
    throw new UsageError(`A store is named by a URL. ${advice}`)
  }
  return scheme.toLowerCase()
}

async function openSqliteUrl(url: string, cwd: string, mayCreate: boolean): Promise<SqliteStore> {
  return openSqlite(mayCreate ? resolve(cwd, sqliteFile(url)) : existingFile(url, cwd))
}

/** The file of an existing SQLite store. */
export function existingFile(url: string, cwd: string): string {
  const path = resolve(cwd, sqliteFile(url))
  if ((statSync(path, { throwIfNoEntry: false })?.size ?? 0) > 0) return path
  throw new CommandError(
    `There is no store at '${nearPath(path, cwd)}'. Check the URL, or create a store there: ${commandLine('migrate', { '--store': withoutSecrets(url) })}`,
  )
}

function nearPath(path: string, cwd: string): string {
  const near = relative(cwd, path)
  return near.startsWith('..') || isAbsolute(near) ? path : near
}
