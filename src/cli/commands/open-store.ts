import { statSync } from 'node:fs'
import { isAbsolute, relative, resolve } from 'node:path'
import { openPostgres, type PostgresStore } from '../../store/postgres/index.js'
import { openSqlite, type SqliteStore } from '../../store/sqlite/index.js'
import type { Environment } from '../environment.js'
import { CommandError, UsageError } from '../errors.js'

export const DEFAULT_STORE = 'sqlite:./.redrive/redrive.db'

/** Which store: what `--store` says, else REDRIVE_STORE, else the default. */
export interface StoreOptions {
  readonly store?: string
}

/** A store that outlives its process. */
export type DurableStore = PostgresStore | SqliteStore

/** The URL of the store that a command is for. */
export function storeUrl({ store }: StoreOptions, { env }: Environment): string {
  return store ?? (env.REDRIVE_STORE || DEFAULT_STORE)
}

/** Opens the store. One that does not exist is made if it `mayCreate`; otherwise that is an error, and nothing is made. */
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
      return openPostgresUrl(url, mayCreate)
    default:
      // The rest of a URL may hold a password, so it is not repeated.
      throw new UsageError(
        `A store of the kind '${schemeOf(url)}:' is not known: give one such as '${DEFAULT_STORE}' or 'postgres://host/database'.`,
      )
  }
}

/** Opens a store that exists, and closes it afterwards. */
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

/** The file that a URL such as `sqlite:./redrive.db` or `sqlite:///var/lib/redrive.db` names. */
export function sqlitePath(url: string): string {
  const rest = url.slice('sqlite:'.length)
  const path = rest.startsWith('///') ? rest.slice(2) : rest
  if (path === '' || path.startsWith(':') || path.startsWith('//')) {
    throw new UsageError(
      `'${url}' names no file: give one such as '${DEFAULT_STORE}' or 'sqlite:///var/lib/redrive.db'.`,
    )
  }
  return path
}

function schemeOf(url: string): string {
  const [, scheme] = /^([a-z][a-z0-9+.-]+):/i.exec(url) ?? []
  if (scheme === undefined) throw new UsageError(`A store is a URL: did you mean 'sqlite:${url}'?`)
  return scheme.toLowerCase()
}

async function openSqliteUrl(url: string, cwd: string, mayCreate: boolean): Promise<SqliteStore> {
  const path = resolve(cwd, sqlitePath(url))
  const isMissing = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0
  if (isMissing && !mayCreate) {
    throw new CommandError(
      `There is no store at '${nearPath(path, cwd)}'. Give another URL, or make a store there: redrive migrate --store '${url}'`,
    )
  }
  return openSqlite(path)
}

/** `?schema=NAME` says which schema it is, if it is not `redrive`. */
async function openPostgresUrl(url: string, mayCreate: boolean): Promise<PostgresStore> {
  if (!URL.canParse(url))
    throw new UsageError('The URL of the store cannot be read: is a character of its password not escaped?')
  const address = new URL(url)
  const schema = address.searchParams.get('schema') ?? undefined
  address.searchParams.delete('schema')
  return openPostgres(address.href, { schema, migrate: mayCreate })
}

function nearPath(path: string, cwd: string): string {
  const near = relative(cwd, path)
  return near.startsWith('..') || isAbsolute(near) ? path : near
}
