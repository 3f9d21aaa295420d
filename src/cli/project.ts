import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { checkOptions } from '../policy/internal.js'
import { checkOwner } from './check-owner.js'
import { importModule } from './commands/shared/import-module.js'
import type { RedriveConfig } from './config.js'
import type { Environment } from './environment.js'
import { CommandError } from './errors.js'

const FIELDS: Readonly<Record<keyof RedriveConfig, '' | 'object'>> = {
  store: '',
  bus: '',
  monitor: '',
  source: '',
  tasks: '',
  preset: '',
  collections: 'object',
  interval: '',
  stuckAfter: '',
  policy: 'object',
  coverage: 'object',
  notify: 'object',
}

/** The fields that stand for a variable. */
const VARIABLES = {
  store: 'REDRIVE_STORE',
  bus: 'REDRIVE_BUS',
  monitor: 'REDRIVE_BUS_MONITOR',
  source: 'REDRIVE_SOURCE',
  tasks: 'REDRIVE_TASKS',
  preset: 'REDRIVE_PRESET',
} as const

const FILES = ['redrive.config.ts', 'redrive.config.mts', 'redrive.config.js', 'redrive.config.mjs']

/**
 * The environment within its project: the nearest folder, from the current one upwards, that has a package.json. So a
 * command finds the same configuration and the same default store in every folder of a project. A variable takes
 * precedence over the configuration.
 */
export async function inProject(environment: Environment): Promise<Environment> {
  const project = projectFolder(environment.cwd)
  const file = FILES.map(name => join(project, name)).find(existsSync)
  if (file === undefined) return { ...environment, project }
  checkOwner(file)
  const config: unknown = Reflect.get(await importModule(file, environment, 'your configuration'), 'default')
  if (typeof config !== 'object' || config === null) {
    throw new CommandError(
      `The default export of '${file}' must be an object, such as { store: 'postgres://host/app' }.`,
    )
  }
  checkOptions(`'${file}'`, config, FIELDS)
  const env = { ...environment.env }
  for (const [field, variable] of Object.entries(VARIABLES)) {
    const value: unknown = Reflect.get(config, field)
    if (value !== undefined && (typeof value !== 'string' || value === '')) {
      throw new CommandError(`'${field}' in '${file}' must be text. Is a variable that it reads not set?`)
    }
    if (typeof value === 'string') env[variable] ||= value
  }
  const notify: unknown = Reflect.get(config, 'notify')
  return {
    ...environment,
    project,
    env,
    ...('collections' in config && { settings: sweeperSettings(config) }),
    ...(typeof notify === 'object' && notify !== null && { notify }),
  }
}

/** The fields that neither stand for a variable nor are for workers. */
function sweeperSettings(config: object): object {
  const isOfSweeper = (field: string) => field !== 'notify' && !Object.hasOwn(VARIABLES, field)
  return Object.fromEntries(Object.entries(config).filter(([field]) => isOfSweeper(field)))
}

function projectFolder(cwd: string): string {
  for (let folder = cwd; ; folder = dirname(folder)) {
    if (existsSync(join(folder, 'package.json'))) return folder
    if (folder === dirname(folder)) return cwd
  }
}
