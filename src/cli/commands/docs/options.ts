import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { Collection, SweeperSettings } from '../../../document/index.js'
import {
  type DocumentSource,
  openMongodbSource,
  openPostgresSource,
  openSqliteSource,
} from '../../../document/index.js'
import { collectionOf } from '../../../document/internal.js'
import type { PolicyInput } from '../../../policy/index.js'
import { checkOptions, isObject, type KnownOptions } from '../../../policy/internal.js'
import { presets } from '../../../presets/index.js'
import { sqliteFile } from '../../../store/sqlite/internal.js'
import type { Environment } from '../../environment.js'
import { CommandError, UsageError } from '../../errors.js'
import { importModule } from '../shared/import-module.js'
import { projectUrl } from '../shared/open-store.js'
import { duration, nonEmpty } from '../shared/options.js'

/** The flags of every command for documents. */
export interface DocumentOptions {
  readonly source?: string
  readonly config?: string
  readonly baseDelay?: number
  readonly maxDelay?: number
  readonly stuckThresholdHours?: number
}

const SETTINGS: KnownOptions<SweeperSettings> = {
  collections: '',
  coverage: '',
  interval: '',
  policy: '',
  stuckAfter: '',
}

const EXAMPLES = "'mongodb://host/database', 'postgres://host/database' or 'sqlite:./app.db'"

/** Adds the flags that name the source and its collections. */
export function withDocumentOptions(command: Command): Command {
  return command
    .option('--source <url>', 'URL of the source: mongodb://…, postgres://… or sqlite:… (or REDRIVE_SOURCE)', nonEmpty)
    .option(
      '--config <file>',
      'Module whose default export has the collections (default: redrive.config, or the preset)',
      nonEmpty,
    )
    .option('--base-delay <duration>', 'Delay after the first attempt (default: 5m)', duration(0))
    .option('--max-delay <duration>', 'Longest delay between attempts (default: 1h)', duration(0))
    .option('--stuck-threshold-hours <n>', 'Age of the last attempt of a stuck document (default: 24)', hours)
}

function hours(text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !(value >= 0 && Number.isFinite(value)))
    throw new UsageError(`--stuck-threshold-hours must be a number of hours, 0 or more.`)
  return value
}

/** The settings: the flags over the file, or over the preset as the environment sets it. */
export async function settingsOf(options: DocumentOptions, environment: Environment): Promise<SweeperSettings> {
  const { config, baseDelay, maxDelay, stuckThresholdHours } = options
  const base = config === undefined ? ownSettings(environment) : await loaded(config, environment)
  const backoff = {
    ...(baseDelay !== undefined && { base: baseDelay }),
    ...(maxDelay !== undefined && { max: maxDelay }),
  }
  const flags: PolicyInput = Object.keys(backoff).length === 0 ? {} : { backoff }
  return {
    ...base,
    policy: laidOver(base.policy, flags),
    ...(stuckThresholdHours !== undefined && {
      stuckAfter: stuckThresholdHours * 3_600_000,
      collections: base.collections.map(({ stuckAfter: _, ...collection }) => collection),
    }),
  }
}

/** The settings without a file: those of the project, or else the preset. */
function ownSettings({ env, settings }: Environment): SweeperSettings {
  return settings === undefined ? presets.documents.sweeper(env) : checked(settings, 'redrive.config')
}

function laidOver(base: PolicyInput = {}, flags: PolicyInput): PolicyInput {
  if (flags.backoff === undefined) return base
  // A list of delays has neither base nor max.
  const under = isObject(base.backoff) ? base.backoff : {}
  return { ...base, backoff: { ...under, ...(typeof flags.backoff === 'object' && flags.backoff) } }
}

async function loaded(file: string, environment: Environment): Promise<SweeperSettings> {
  const exported = await importModule(file, environment, 'your collections as its default')
  const settings: unknown = Reflect.get(exported, 'default')
  return checked(settings, file)
}

/** The values of the fields are checked where they are used. */
function checked(settings: unknown, file: string): SweeperSettings {
  if (!hasCollections(settings))
    throw new CommandError(`The default export of '${file}' must be an object with 'collections', a list.`)
  checkOptions(`'${file}'`, settings, SETTINGS)
  return settings
}

function hasCollections(settings: unknown): settings is SweeperSettings {
  return isObject(settings) && Array.isArray(settings.collections)
}

/** Opens the source that a command is for. */
export async function openSource({ source }: DocumentOptions, environment: Environment): Promise<DocumentSource> {
  const { REDRIVE_SOURCE: variable } = environment.env
  const url = source ?? (variable ? projectUrl(variable, environment) : undefined)
  if (url === undefined) throw new UsageError(`Which source? Pass --source or set REDRIVE_SOURCE, such as ${EXAMPLES}.`)
  const [, scheme = ''] = /^([a-z+]+):/i.exec(url) ?? []
  switch (scheme.toLowerCase()) {
    case 'sqlite':
      return openSqliteSource(resolve(environment.cwd, sqliteFile(url)))
    case 'postgres':
    case 'postgresql':
      return openPostgresSource(url)
    case 'mongodb':
    case 'mongodb+srv':
      return openMongodbSource(url)
    default:
      // The rest of a URL may hold a password, so it is not repeated.
      throw new UsageError(`Sources of the kind '${scheme}:' are not supported. Pass a URL such as ${EXAMPLES}.`)
  }
}

/** Opens the source and finds a collection, and closes the source afterwards. */
export async function withSource<T>(
  options: DocumentOptions,
  environment: Environment,
  use: (source: DocumentSource, collections: readonly Collection[]) => Promise<T>,
): Promise<T> {
  const settings = await settingsOf(options, environment)
  const collections = settings.collections.map(collection => collectionOf(collection, settings))
  const source = await openSource(options, environment)
  try {
    return await use(source, collections)
  } finally {
    await source.close()
  }
}

/** The collection of that name. */
export function collectionNamed(collections: readonly Collection[], name: string): Collection {
  const found = collections.find(collection => collection.name === name)
  if (found !== undefined) return found
  const known = collections.map(collection => collection.name).join(', ')
  throw new UsageError(`There is no collection '${name}'. The collections are ${known}.`)
}
