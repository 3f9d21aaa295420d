import type { Command } from 'commander'
import { planReprocess, type ReprocessPlan, reprocess } from '../../../operate/index.js'
import type { ReprocessSelection } from '../../../operate/internal.js'
import { isWorker } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import type { Environment } from '../../environment.js'
import { ExitCode, UsageError } from '../../errors.js'
import { suggest } from '../../suggest.js'
import { grouped } from '../../terminal/chart.js'
import { confirm } from '../../terminal/confirm.js'
import type { Console } from '../../terminal/console.js'
import { writeList, writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { table } from '../../terminal/table.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions } from '../shared/options.js'

interface ReprocessOptions extends CommonOptions {
  readonly pipeline?: string
  readonly stage?: string
  readonly error?: string
  readonly as?: string
  readonly why?: string
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** Adds `redrive pipeline reprocess`. */
export function addReprocess(pipeline: Command, context: CommandContext): void {
  const command = pipeline
    .command('reprocess')
    .description('Give dead items fresh attempts at the stage where they died')
    .argument('[run]', 'Id of the run')
    .option('--pipeline <name>', 'All runs of this pipeline, instead of one run', nonEmpty)
    .option('--stage <stage>', 'Only items that died in this stage', nonEmpty)
    .option('--error <code>', "Only items with this error code, such as 'http_422'", nonEmpty)
    .option('--as <stage>', 'Move them from --stage to this stage, for one that is gone', nonEmpty)
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--dry-run', 'Show how many items would be moved, and move none')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (run: string | undefined, options: ReprocessOptions) =>
      context.end(await reprocessItems(context, run, options)),
    )
  withCommonOptions(command).addHelpText(
    'after',
    `
Items go on with the value that they had at that stage, under the code of today.
A run that had ended is open again, and the live workers go on with it.

Examples:
  redrive pipeline reprocess enrich-1 --dry-run
  redrive pipeline reprocess enrich-1 --stage llm_call --error http_422 --yes
  redrive pipeline reprocess --pipeline enrich --stage embed --as embed_v2`,
  )
}

function reprocessItems(
  context: CommandContext,
  run: string | undefined,
  options: ReprocessOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  const selection = selectionOf(run, options)
  return withStore(options, environment, async store => {
    const plan = await planReprocess(store, selection)
    if (options.dryRun) return preview(console, plan, options)
    checkStages(plan)
    if (plan.count > 0 && !options.yes) await askFirst(environment, plan.count)
    const { moved, reopened, isStopped } = await withCount(
      context,
      { total: plan.count, verb: 'moved', unit: 'batch', rest: 'Run the same command again to continue.' },
      progress => reprocess(store, selection, { who: environment.user, why: options.why, ...progress }),
    )
    writeResult(console, options.output, { moved, reopened, isStopped })
    console.say(`${grouped(moved)} moved.`)
    for (const id of reopened) console.say(`The run ${id} is open again.`)
    if (moved > 0 && !(await store.workers()).some(isWorker))
      console.say(`No worker is running that could go on with them. Start one: ${suggest('worker', {}, 'FILE')}`)
    return isStopped ? ExitCode.partly : ExitCode.done
  })
}

function preview(console: Console, plan: ReprocessPlan, { output, as }: ReprocessOptions): ExitCode {
  writeList(console, output, plan.byStage, stages =>
    table(
      [{ title: 'STAGE' }, { title: 'DEAD' }, { title: 'WAITING' }],
      stages.map(({ stage, dead, waiting }) => ({ cells: [stage, grouped(dead), grouped(waiting)] })),
      console,
    ),
  )
  for (const stage of plan.missing) console.say(`The pipeline has no stage '${stage}' any more: say where with --as.`)
  const target = as === undefined ? '' : ` to the stage '${as}'`
  console.say(`${grouped(plan.count)} would be moved${target}. This was a dry run: 0 moved.`)
  return ExitCode.done
}

function selectionOf(
  run: string | undefined,
  { pipeline, stage, error: errorCode, as }: ReprocessOptions,
): ReprocessSelection {
  if (run !== undefined && pipeline !== undefined) throw new UsageError('Pass a run or --pipeline, but not both.')
  if (as !== undefined && stage === undefined)
    throw new UsageError('With --as, name the stage they are in with --stage.')
  if (run !== undefined) return { run, stage, errorCode, as }
  if (pipeline !== undefined) return { pipeline, stage, errorCode, as }
  throw new UsageError('Which items? Pass the id of a run, or --pipeline.')
}

function checkStages({ missing }: ReprocessPlan): void {
  const [stage] = missing
  if (stage === undefined) return
  throw new UsageError(
    `The pipeline has no stage '${stage}' any more, so it is unclear where its items go on. Pass --stage ${stage} --as STAGE. 0 moved.`,
  )
}

async function askFirst(environment: Environment, count: number): Promise<void> {
  const items = `${count} ${count === 1 ? 'item' : 'items'}`
  switch (await confirm(environment, `Give ${items} fresh attempts?`)) {
    case 'yes':
      return
    case 'no':
      throw new UsageError('Not confirmed. 0 moved.')
    case 'unasked':
      throw new UsageError(`This would move ${items}. Without a terminal to confirm on, pass --yes. 0 moved.`)
  }
}
