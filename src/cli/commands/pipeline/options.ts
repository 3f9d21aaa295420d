import { InvalidArgumentError } from 'commander'
import type { RunStore } from '../../../store/internal.js'
import { CommandError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { quoted } from '../../terminal/visible.js'
import { namedNumbers } from '../shared/options.js'

/** Settings of a run, as flags. */
export interface SettingFlags {
  readonly failureBudget?: number
  readonly checkInterval?: number
  readonly concurrency?: Readonly<Record<string, number>>
}

/** Collects `stage=20`. */
export const stageNumbers = namedNumbers('stage', 'llm_call=20')

/** A new rate of a stage: of a bucket, or of its only one. Without `perSecond`, it has no rates any more. */
export interface RateFlag {
  readonly stage: string
  readonly bucket?: string | undefined
  readonly perSecond?: number
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600 }

/** Collects `stage=100/s`, `stage=tokens:30000/m` and `stage=none`. */
export function stageRates(text: string, before: readonly RateFlag[] = []): readonly RateFlag[] {
  const [, stage, rate = ''] = /^([\w.-]+)=(.+)$/.exec(text) ?? []
  if (stage !== undefined && rate === 'none') return [...before, { stage }]
  const [, bucket, number, unit = ''] = /^(?:([^:]+):)?(\d+(?:\.\d+)?)\/([smh])$/.exec(rate) ?? []
  const perSecond = Number(number) / (SECONDS[unit] ?? Number.NaN)
  if (stage === undefined || !(perSecond > 0)) {
    throw new InvalidArgumentError(
      "It must name a stage and a rate above 0, such as 'llm_call=100/s', 'llm_call=requests:500/m' or 'llm_call=none'.",
    )
  }
  return [...before, { stage, bucket, perSecond }]
}

/** Throws unless the run exists. */
export async function runById(runs: Pick<RunStore, 'get'>, id: string) {
  const run = await runs.get(id)
  if (run !== undefined) return run
  throw noSuchRun(id)
}

/** The error of an id that no run has. */
export function noSuchRun(id: string): CommandError {
  return new CommandError(`There is no run ${quoted(id)}. To list runs, run: ${suggest('pipeline ls')}`)
}
