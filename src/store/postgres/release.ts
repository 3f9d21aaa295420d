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
  /** The statements that lead to each schema version. The first creates the tables of a fresh store. */
  readonly schema: ReadonlyMap<number, string>
  /** The functions of the release before, as name/number of arguments. */
  readonly lastFunctions: readonly string[]
}

/** Raise this with the first change in `functions/` after a release. A test holds the hash of each version. */
const FUNCTIONS_VERSION = 1

const OLDEST_VERSION = 7

/** The first schema version that was released. Stores of earlier ones cannot be upgraded. */
export const FIRST_VERSION = 7

let loading: Promise<Release> | undefined

/** This release. Its files are read when the first store is opened. */
export function thisRelease(): Promise<Release> {
  loading ??= load()
  return loading
}

async function load(): Promise<Release> {
  const [schema, functions] = await Promise.all([readSql('schema'), readSql('functions')])
  const text = withSettings(functions.map(({ sql }) => sql).join('\n'))
  const versions = new Map(schema.map(({ file, sql }) => [Number.parseInt(file, 10), sql]))
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

/**
 * The functions of schema version 7. A call of them may be under way while they are replaced: it goes on with its old body,
 * and calls the functions that it finds. So they stay for one release, even where this one does not have them.
 */
const LAST_FUNCTIONS = [
  'acknowledge/3',
  'allowance/2',
  'append_audit/2',
  'apply/2',
  'cancel/2',
  'claim/8',
  'claim_key/5',
  'complete/5',
  'ended_page/8',
  'enqueue/11',
  'first_alone/3',
  'first_round/0',
  'fold_tally/3',
  'has_ready/1',
  'heartbeat/5',
  'last_place/2',
  'leave/2',
  'limit_lanes/7',
  'lock_alone/2',
  'make_lanes/1',
  'next_time/1',
  'now_ms/1',
  'open_lanes/6',
  'pause/4',
  'pick/3',
  'prune/6',
  'prune_ended/3',
  'ramp_up/1',
  'redrive/4',
  'settle/11',
  'start/3',
  'succeed/8',
  'take_from/5',
  'tokens/2',
]
