import { existsSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command } from 'commander'
import { sampleJsonl } from '../../../pipeline/internal.js'
import type { StoreContract } from '../../../store/internal.js'
import type { Outage } from '../../../task/index.js'
import type { CommandContext } from '../../command.js'
import { type ExitCode, errorText, UsageError } from '../../errors.js'
import { quoted } from '../../terminal/visible.js'
import { type CommonOptions, nonEmpty, share, wholeNumber, withCommonOptions } from '../shared/options.js'
import type { AnyPipeline } from './load-pipeline.js'
import { type SettingFlags, stageNumbers } from './options.js'

/** Flags of `run` and `resume`. */
export interface WorkFlags extends CommonOptions, SettingFlags {
  readonly in?: string
  readonly out?: string
  readonly pipeline?: string
  readonly yes?: boolean
}

/** Adds the flags of `run` and `resume`. */
export function withWorkFlags(command: Command): Command {
  command
    .option('--pipeline <name>', 'The pipeline, if the module exports several', nonEmpty)
    .option('--failure-budget <share>', "Stop above this share of dead items (default: '10%')", share)
    .option('--check-interval <n>', 'Check the budget every n items (default: 1000)', wholeNumber(1, 1e9))
    .option('--concurrency <stage=n>', 'Items of a stage at once; may be repeated', stageNumbers)
    .option('-y, --yes', 'Skip the confirmation prompts')
  return withCommonOptions(command)
}

/** Closes the store afterwards, unless something still uses it. */
export async function withWork(
  store: StoreContract,
  work: () => Promise<{ readonly code: ExitCode; readonly isCutShort: boolean }>,
): Promise<ExitCode> {
  let isCutShort = false
  try {
    const result = await work()
    isCutShort = result.isCutShort
    return result.code
  } finally {
    if (!isCutShort) await store.close()
  }
}

/** The number of items in a file, counted while the run goes on. A pipe can be read only once. */
export function countOf(input: string): Promise<number | undefined> {
  if (!statSync(input).isFile()) return Promise.resolve(undefined)
  return sampleJsonl(input, 0).then(
    ({ total }) => total,
    () => undefined,
  )
}

/** The path that `--in` names. */
export function inputPath(file: string, cwd: string): string {
  return file === '-' ? '/dev/stdin' : resolve(cwd, file)
}

/** The path of the items. Throws if there is no such file. */
export function inputFile(file: string, cwd: string): string {
  const path = inputPath(file, cwd)
  if (!existsSync(path)) throw new UsageError(`There is no file '${file}' to read items from. Check --in.`)
  return path
}

/** Throws if a flag names a stage that the pipeline does not have. */
export function checkStages({ stages, name }: AnyPipeline, { concurrency = {} }: WorkFlags): void {
  const unknown = Object.keys(concurrency).find(stage => stages.every(each => each.name !== stage))
  if (unknown === undefined) return
  const known = stages.map(stage => stage.name).join(', ')
  throw new UsageError(`The pipeline ${quoted(name)} has no stage ${quoted(unknown)}. Its stages: ${known}.`)
}

/** Says that the store is away, and that it is back. */
export function sayOutage({ console }: CommandContext): (outage: Outage) => void {
  return outage =>
    console.say(outage.isOver ? 'The store answers again.' : `${errorText(outage.failure)} The run keeps trying.`)
}

/** Without the fields that are not set. */
export function defined<T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>
  }
}
