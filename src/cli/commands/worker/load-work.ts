import { resolve } from 'node:path'
import type { Command } from 'commander'
import type { AnyDefinition, DeclaredSchedule } from '../../../task/internal.js'
import type { Environment } from '../../environment.js'
import { CommandError, UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'
import { type AnyPipeline, isPipeline } from '../pipeline/load-pipeline.js'
import { importModule } from '../shared/import-module.js'
import { nonEmpty } from '../shared/options.js'

/** The work that a module has code for. */
export interface Work {
  readonly tasks: readonly AnyDefinition[]
  readonly pipelines: readonly AnyPipeline[]
  /** All of them, whatever is chosen: any worker fires any schedule. */
  readonly schedules: readonly DeclaredSchedule[]
}

/** The kinds of tasks and the pipelines to choose. If only one of both is given, nothing of the other is chosen. */
export interface WorkChoice {
  readonly kind?: readonly string[]
  readonly pipeline?: readonly string[]
}

/** Loads the tasks, pipelines and schedules that a module exports, by name or as a default array. Sorted by name. */
export async function loadWork(file: string, environment: Environment, choice: WorkChoice): Promise<Work> {
  const exported = [...exportedBy(await importModule(file, environment, 'your tasks or pipelines'), file)]
  const tasks = named(exported.filter(isDefinition), ({ kind }) => kind, `'${file}' defines the kind`)
  const pipelines = named(exported.filter(isPipeline), ({ name }) => name, `'${file}' defines the pipeline`)
  const schedules = named(exported.filter(isSchedule), ({ name }) => name, `'${file}' defines the schedule`)
  if (tasks.size + pipelines.size + schedules.size === 0) {
    throw new CommandError(
      `'${file}' exports no tasks, pipelines or schedules. Export the results of defineTask(), pipeline() or schedule(), by name or as a default array.`,
    )
  }
  const isAll = choice.kind === undefined && choice.pipeline === undefined
  return {
    tasks: chosen(tasks, choice.kind ?? (isAll ? undefined : []), `'${file}' defines no task of kind`),
    pipelines: chosen(pipelines, choice.pipeline ?? (isAll ? undefined : []), `'${file}' defines no pipeline`),
    schedules: [...schedules.values()],
  }
}

/** Adds the flag for the schemas that payloads must fit. */
export function withTasks(command: Command): Command {
  const text = 'Check payloads against the tasks of this module (or REDRIVE_TASKS)'
  return command.option('--tasks <file>', text, nonEmpty)
}

/** Adds the flag for the codecs that decode what is encoded. */
export function withTaskCodecs(command: Command): Command {
  const text = 'Decode encoded payloads with the tasks of this module (or REDRIVE_TASKS)'
  return command.option('--tasks <file>', text, nonEmpty)
}

/**
 * Loads the tasks of a module, for their schemas and codecs: the one named, or the one that the project names in its configuration.
 * `undefined` if there is none.
 */
export async function loadTasks(
  file: string | undefined,
  environment: Environment,
): Promise<readonly AnyDefinition[] | undefined> {
  const { REDRIVE_TASKS: known } = environment.env
  const path = file ?? (known && resolve(environment.project ?? environment.cwd, known))
  return path ? (await loadWork(path, environment, {})).tasks : undefined
}

function* exportedBy(module: object, file: string): Generator<unknown> {
  for (const [name, value] of Object.entries(module)) {
    yield value
    if (name !== 'default' || !Array.isArray(value)) continue
    for (const [index, item] of value.entries()) {
      if (!isDefinition(item) && !isPipeline(item) && !isSchedule(item)) {
        const made = 'made by none of defineTask(), pipeline() and schedule()'
        throw new CommandError(`Item ${index} of the default export of '${file}' was ${made}.`)
      }
      yield item
    }
  }
}

/** All of them by name, sorted. `problem` begins the error if two have the same. */
function named<T>(all: readonly T[], nameOf: (one: T) => string, problem: string): ReadonlyMap<string, T> {
  const found = new Map<string, T>()
  for (const one of all) {
    const name = nameOf(one)
    if ((found.get(name) ?? one) !== one) throw new CommandError(`${problem} ${quoted(name)} twice.`)
    found.set(name, one)
  }
  return new Map([...found].sort(([a], [b]) => (a < b ? -1 : 1)))
}

function chosen<T>(known: ReadonlyMap<string, T>, names: readonly string[] | undefined, problem: string): T[] {
  const unknown = names?.find(name => !known.has(name))
  if (unknown !== undefined) {
    const all = known.size === 0 ? 'none' : [...known.keys()].join(', ')
    throw new UsageError(`${problem} ${quoted(unknown)}. It defines: ${all}.`)
  }
  return [...known].filter(([name]) => names?.includes(name) ?? true).map(([, one]) => one)
}

function isDefinition(value: unknown): value is AnyDefinition {
  if (typeof value !== 'object' || value === null) return false
  const { kind, policy, policyHash, handler } = value as Partial<Record<keyof AnyDefinition, unknown>>
  return (
    typeof kind === 'string' &&
    typeof policy === 'object' &&
    typeof policyHash === 'string' &&
    typeof handler === 'function'
  )
}

/** By its shape: the module may have its own copy of the package. */
function isSchedule(value: unknown): value is DeclaredSchedule {
  if (typeof value !== 'object' || value === null) return false
  const { name, spec, task } = value as Partial<Record<keyof DeclaredSchedule, unknown>>
  return typeof name === 'string' && typeof spec === 'object' && typeof task === 'object'
}
