import { statSync } from 'node:fs'
import { isAbsolute, relative, resolve } from 'node:path'
import type { Store } from '../store/index.js'
import { openSqlite } from '../store/sqlite/index.js'
import type { Environment } from './environment.js'
import { CommandError, UsageError } from './errors.js'

export const DEFAULT_STORE = 'sqlite:./.redrive/redrive.db'

/** Which store: what `--store` says, else REDRIVE_STORE, else the default. */
export interface StoreOptions {
  readonly store?: string
}

/** Opens the store. One that does not exist is made if it `mayCreate`; otherwise that is an error, and nothing is made. */
export async function openStore(
  options: StoreOptions,
  { env, cwd }: Environment,
  { mayCreate }: { readonly mayCreate: boolean },
): Promise<Store> {
  const path = resolve(cwd, sqlitePath(options.store ?? (env.REDRIVE_STORE || DEFAULT_STORE)))
  const isMissing = (statSync(path, { throwIfNoEntry: false })?.size ?? 0) === 0
  if (isMissing && !mayCreate) {
    throw new CommandError(
      `There is no store at '${nearPath(path, cwd)}'. Say where it is with --store or REDRIVE_STORE; 'redrive worker' makes a new one.`,
    )
  }
  return openSqlite(path)
}

/** Opens a store that exists, and closes it afterwards. */
export async function withStore<T>(
  options: StoreOptions,
  environment: Environment,
  use: (store: Store) => Promise<T>,
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
  const [, scheme, rest = ''] = /^([a-z][a-z0-9+.-]+):(.*)$/is.exec(url) ?? []
  if (scheme === undefined) throw new UsageError(`A store is a URL: did you mean --store 'sqlite:${url}'?`)
  // The rest of a URL may hold a password, so it is not repeated.
  if (scheme.toLowerCase() !== 'sqlite') {
    throw new UsageError(`A store of the kind '${scheme}:' is not supported yet: give one such as '${DEFAULT_STORE}'.`)
  }
  const path = rest.startsWith('///') ? rest.slice(2) : rest
  if (path === '' || path.startsWith(':') || path.startsWith('//')) {
    throw new UsageError(
      `'${url}' names no file: give one such as '${DEFAULT_STORE}' or 'sqlite:///var/lib/redrive.db'.`,
    )
  }
  return path
}

function nearPath(path: string, cwd: string): string {
  const near = relative(cwd, path)
  return near.startsWith('..') || isAbsolute(near) ? path : near
}
