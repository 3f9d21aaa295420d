import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { withSettings } from './verb-settings.js'

/** The SQL of one release of Redrive, and the versions that it records in a store. */
export interface Release {
  /** The schema version that this release brings a store to. */
  readonly version: number
  /** The oldest schema version whose code can work with that schema: a worker of it may still open the store. */
  readonly oldest: number
  /** Grows whenever the functions change, so that older code never replaces newer functions. */
  readonly functionsVersion: number
  readonly functions: string
  readonly hash: string
  /** The statements that lead to each schema version. Those of version 1 create the tables of a fresh store. */
  readonly schema: ReadonlyMap<number, string>
  /** The functions of the release before, as name/number of arguments. */
  readonly lastFunctions: readonly string[]
}

/** Raise this with the first change in `functions/` after a release. A test holds the hash of each version. */
const FUNCTIONS_VERSION = 1

const OLDEST_VERSION = 1

/**
 * The functions of the release before, as name/number of arguments. A call of them may be under way while they are replaced:
 * it goes on with its old body, and calls the functions that it finds. So they stay for one release, even where this one does
 * not have them.
 */
const LAST_FUNCTIONS: readonly string[] = []

let loading: Promise<Release> | undefined

/** This release. Its files are read when the first store is opened. */
export function thisRelease(): Promise<Release> {
  loading ??= load()
  return loading
}

async function load(): Promise<Release> {
  const [schema, functions] = await Promise.all([readSql('schema'), readSql('functions')])
  const text = withSettings(functions.map(({ sql }) => sql).join('\n'))
  const versions = new Map<number, string>()
  for (const { file, sql } of schema) {
    const version = Number.parseInt(file, 10)
    versions.set(version, `${versions.get(version) ?? ''}${sql}`)
  }
  return {
    version: Math.max(...versions.keys()),
    oldest: OLDEST_VERSION,
    functionsVersion: FUNCTIONS_VERSION,
    functions: text,
    hash: createHash('sha256').update(text).digest('hex'),
    schema: versions,
    lastFunctions: LAST_FUNCTIONS,
  }
}

async function readSql(folder: string): Promise<{ readonly file: string; readonly sql: string }[]> {
  const path = join(import.meta.dirname, folder)
  const files = (await readdir(path)).filter(file => file.endsWith('.sql')).sort()
  return Promise.all(files.map(async file => ({ file, sql: await readFile(join(path, file), 'utf8') })))
}
