import type { Command } from 'commander'
import { setRates } from '../../../operate/index.js'
import { ratesOf } from '../../../operate/internal.js'
import type { Rate, RunRecord, RunSettings, RunStore, StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import { writeResult } from '../../terminal/output.js'
import { quoted } from '../../terminal/visible.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, share, wholeNumber, withCommonOptions } from '../shared/options.js'
import { noSuchRun, type RateFlag, type SettingFlags, stageNumbers, stageRates } from './options.js'

interface SetOptions extends CommonOptions, SettingFlags {
  readonly maxUnfinished?: number
  readonly rate?: readonly RateFlag[]
  readonly why?: string
}

/** The bucket of a stage that had none. Nothing but its name depends on it. */
const NEW_BUCKET = 'items'

/** Adds `pipeline set`. */
export function addRunSettings(pipeline: Command, context: CommandContext): void {
  const set = pipeline
    .command('set')
    .description('Change the settings of a run, or the rates of its pipeline, while it runs')
    .argument('<run>', 'Id of the run, or name of the pipeline to change rates of')
    .option('--failure-budget <share>', "Share of dead items above which it stops, such as '5%'", share)
    .option('--check-interval <n>', 'Check the budget each time this many more items have ended', wholeNumber(1, 1e9))
    .option('--concurrency <stage=n>', 'Items of a stage that each process works on; may be repeated', stageNumbers)
    .option('--max-unfinished <n>', 'Read on only while fewer items are unfinished', wholeNumber(1, 1e9))
    .option('--rate <stage=rate>', "Items of a stage that start, such as 'llm_call=100/s'; may be repeated", stageRates)
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .action(async (name: string, options: SetOptions) => context.end(await setRun(context, name, options)))
  withCommonOptions(set).addHelpText(
    'after',
    `
Processes that work on the run follow within about a second.

A rate is a number per second, minute or hour (100/s, 500/m, 2000/h), or 'none'.
It holds for all runs of the pipeline, on all machines, until you set another or
the code declares another. Name the bucket where a stage has several. 'none'
removes all buckets of a stage; rates that follow it may name new ones.

Examples:
  redrive pipeline set enrich-1 --failure-budget 20%
  redrive pipeline set enrich-1 --concurrency llm_call=20 --concurrency embed=2
  redrive pipeline set enrich --rate llm_call=requests:500/m --rate embed=none`,
  )
}

function setRun({ console, environment }: CommandContext, name: string, options: SetOptions): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const by = { who: environment.user, why: options.why }
    const run = await store.runs.get(name)
    const newest = run ?? (await newestRun(store.runs, name))
    const { pipeline } = newest
    const settings = settingsOf(newest, options)
    const rates = await newRates(store, newest, options.rate ?? [])
    if (settings === undefined && rates.size === 0)
      throw new UsageError('Nothing to change. Pass --failure-budget or --rate, for example.')
    const changed = settings && (await store.runs.change(openRun(name, run), { settings }, by))
    for (const [stage, buckets] of rates) await setRates(store, { pipeline, stage }, buckets, by)
    writeResult(console, options.output, {
      ...(changed && { id: name, status: changed.status, settings: changed.settings }),
      ...(rates.size > 0 && { pipeline, rates: Object.fromEntries(rates) }),
    })
    const stages = [...rates.keys()].join(', ')
    if (changed) console.say(`Changed. The run is ${changed.status}.`)
    if (stages !== '') console.say(`Changed the rates of ${stages}, in all runs of '${pipeline}'.`)
    return ExitCode.done
  })
}

/** The newest run of a pipeline. */
async function newestRun(runs: RunStore, pipeline: string): Promise<RunRecord> {
  const [newest] = (await runs.list({ pipeline }, { limit: 1 })).items
  if (newest === undefined) throw noSuchRun(pipeline)
  return newest
}

/** Settings belong to a run that has not ended. Returns its id. */
function openRun(name: string, run: RunRecord | undefined): string {
  if (run === undefined) {
    throw new UsageError(
      `${quoted(name)} is a pipeline, and these settings belong to a run: name the run. Nothing was changed.`,
    )
  }
  if (run.endedAt !== undefined) {
    throw new UsageError(
      `The run ${quoted(name)} has ended (${run.status}), so its settings have no effect. Nothing was changed.`,
    )
  }
  return run.id
}

function settingsOf(run: RunRecord, options: SetOptions): Partial<RunSettings> | undefined {
  const { failureBudget, checkInterval, concurrency, maxUnfinished } = options
  checkStages(run, Object.keys(concurrency ?? {}))
  const settings = {
    ...(failureBudget !== undefined && { failureBudget }),
    ...(checkInterval !== undefined && { checkInterval }),
    ...(maxUnfinished !== undefined && { maxUnfinished }),
    ...(concurrency !== undefined && { concurrency: { ...run.settings.concurrency, ...concurrency } }),
  }
  return Object.keys(settings).length === 0 ? undefined : settings
}

/** The whole rates of each stage that the flags name. Buckets that they do not name stay as they are. */
async function newRates(
  store: Pick<StoreContract, 'lanes' | 'laneRules'>,
  { pipeline, ...run }: RunRecord,
  flags: readonly RateFlag[],
): Promise<ReadonlyMap<string, Readonly<Record<string, Rate>>>> {
  const stages = new Map<string, Readonly<Record<string, Rate>>>()
  checkStages(
    run,
    flags.map(({ stage }) => stage),
  )
  for (const stage of new Set(flags.map(flag => flag.stage))) {
    const own = flags.filter(flag => flag.stage === stage)
    const inForce = await ratesOf(store, { pipeline, stage })
    checkBuckets(stage, Object.keys(inForce), own)
    stages.set(stage, own.reduce(withRate, inForce))
  }
  return stages
}

function withRate(known: Readonly<Record<string, Rate>>, { stage, bucket, perSecond }: RateFlag) {
  if (perSecond === undefined) return {}
  const name = bucket ?? onlyBucket(stage, Object.keys(known))
  return { ...known, [name]: { ...known[name], perSecond } }
}

/** A bucket that was mistyped must not become a second one, beside the one that was meant. */
function checkBuckets(stage: string, buckets: readonly string[], flags: readonly RateFlag[]): void {
  if (buckets.length === 0 || flags.some(({ perSecond }) => perSecond === undefined)) return
  const unknown = flags.find(({ bucket }) => bucket !== undefined && !buckets.includes(bucket))
  if (unknown === undefined) return
  const replace = `To replace them, pass --rate ${stage}=none first.`
  throw new UsageError(
    `The stage '${stage}' has no bucket ${quoted(unknown.bucket ?? '')}. Its buckets: ${buckets.join(', ')}. ${replace}`,
  )
}

function onlyBucket(stage: string, buckets: readonly string[]): string {
  if (buckets.length > 1) {
    const example = `--rate ${stage}=BUCKET:100/s`
    throw new UsageError(`The stage '${stage}' has several buckets: ${buckets.join(', ')}. Name one: ${example}`)
  }
  return buckets[0] ?? NEW_BUCKET
}

function checkStages({ stages }: Pick<RunRecord, 'stages'>, named: readonly string[]): void {
  const unknown = named.find(stage => !stages.includes(stage))
  if (unknown !== undefined)
    throw new UsageError(`The run has no stage ${quoted(unknown)}. Its stages: ${stages.join(', ')}.`)
}
