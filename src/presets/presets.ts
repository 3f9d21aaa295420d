import { OptionError } from '../policy/index.js'
import { calls } from './calls.js'
import { documents } from './documents.js'
import { events } from './events.js'
import { pipelines } from './pipelines.js'
import type { Preset } from './preset.js'
import { tasks } from './tasks.js'

/**
 * The presets by name.
 *
 * ```ts
 * const manager = new RetryManager({ categories: presets.calls.categories })
 * ```
 */
export const presets = { calls, documents, events, pipelines, tasks } as const

/** Finds a preset by its name. Throws an `OptionError` that lists the names if there is none. */
export function presetNamed(name: string): Preset {
  const known: readonly Preset[] = Object.values(presets)
  const preset = known.find(preset => preset.name === name)
  if (preset !== undefined) return preset
  const names = known.map(({ name }) => name).join(', ')
  throw new OptionError('preset', `There is no preset '${name.slice(0, 60)}'. The presets are ${names}.`)
}
