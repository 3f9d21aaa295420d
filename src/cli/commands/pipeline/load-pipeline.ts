import type { Pipeline } from '../../../pipeline/index.js'
import type { Environment } from '../../environment.js'
import { CommandError, UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'
import { importModule } from '../shared/import-module.js'

/** A pipeline of any items. */
export type AnyPipeline = Pipeline<unknown, unknown>

/** Loads the pipeline that a module exports; the one of this name, if it exports several. */
export async function loadPipeline(
  file: string,
  environment: Environment,
  name: string | undefined,
): Promise<AnyPipeline> {
  const exported = await importModule(file, environment, 'your pipeline')
  const found = [...new Set(Object.values(exported).filter(isPipeline))]
  if (found.length === 0) {
    throw new CommandError(`'${file}' exports no pipeline. Export the result of pipeline(), by name or as the default.`)
  }
  const chosen = found.filter(pipeline => name === undefined || pipeline.name === name)
  const [pipeline] = chosen
  if (pipeline !== undefined && chosen.length === 1) return pipeline
  const names = found.map(each => each.name).join(', ')
  throw new UsageError(
    name === undefined
      ? `'${file}' exports several pipelines: ${names}. Choose one with --pipeline.`
      : `'${file}' exports no pipeline ${quoted(name)}. It exports: ${names}.`,
  )
}

/** By its shape: the module may have its own copy of the package. */
export function isPipeline(value: unknown): value is AnyPipeline {
  if (typeof value !== 'object' || value === null) return false
  const { name, version, stages, start, resume } = value as Partial<Record<keyof AnyPipeline, unknown>>
  return (
    typeof name === 'string' &&
    typeof version === 'string' &&
    Array.isArray(stages) &&
    typeof start === 'function' &&
    typeof resume === 'function'
  )
}
