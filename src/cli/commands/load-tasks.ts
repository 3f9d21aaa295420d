import type { TaskDefinition } from '../../task/index.js'
import type { Environment } from '../environment.js'
import { CommandError } from '../errors.js'
import { quoted } from '../terminal/visible.js'
import { importModule } from './import-module.js'

/** Loads the task definitions that a module exports, by name or as a default array. Sorted by kind. */
export async function loadTasks(file: string, environment: Environment): Promise<TaskDefinition[]> {
  const exported = await importModule(file, environment, 'your tasks')
  const definitions = new Map<string, TaskDefinition>()
  for (const definition of definitionsIn(exported, file)) {
    const known = definitions.get(definition.kind)
    if (known !== undefined && known !== definition) {
      throw new CommandError(`'${file}' defines the kind ${quoted(definition.kind)} twice.`)
    }
    definitions.set(definition.kind, definition)
  }
  if (definitions.size === 0) {
    throw new CommandError(
      `'${file}' exports no tasks. Export the results of defineTask(), by name or as a default array.`,
    )
  }
  return [...definitions.values()].sort((a, b) => (a.kind < b.kind ? -1 : 1))
}

function* definitionsIn(exported: object, file: string): Generator<TaskDefinition> {
  for (const [name, value] of Object.entries(exported)) {
    if (isDefinition(value)) yield value
    if (name !== 'default' || !Array.isArray(value)) continue
    for (const [index, item] of value.entries()) {
      if (!isDefinition(item)) {
        throw new CommandError(`Item ${index} of the default export of '${file}' was not made by defineTask().`)
      }
      yield item
    }
  }
}

function isDefinition(value: unknown): value is TaskDefinition {
  if (typeof value !== 'object' || value === null) return false
  const { kind, policy, policyHash, handler } = value as Partial<Record<keyof TaskDefinition, unknown>>
  return (
    typeof kind === 'string' &&
    typeof policy === 'object' &&
    typeof policyHash === 'string' &&
    typeof handler === 'function'
  )
}
