import type { Command } from 'commander'
import { type LetterSelection, planRedrive, redriveDeadLetters } from '../../operate/index.js'
import type { Store } from '../../store/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode } from '../errors.js'
import { writeResult } from '../terminal/output.js'
import { withCount } from '../terminal/progress.js'
import { askFirst } from './ask-first.js'
import { endOf, lettersText, preview, type SelectionOptions, selectionOf, withSelection } from './letter-selection.js'
import { withStore } from './open-store.js'
import { type CommonOptions, nonEmpty, rate, withCommonOptions } from './options.js'

interface RedriveCommandOptions extends CommonOptions, SelectionOptions {
  readonly why?: string
  readonly rate?: number
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** Adds `redrive dlq redrive`. */
export function addRedrive(dlq: Command, context: CommandContext): void {
  const redrive = dlq.command('redrive').description('Give dead letters fresh attempts; their history stays')
  withSelection(redrive, 'Redrive')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--rate <rate>', "Maximum rate, such as '50/s' or '600/m'", rate)
    .option('--dry-run', 'Show which dead letters would be moved, and move none')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (ids: string[], options: RedriveCommandOptions) =>
      context.end(await redriveLetters(context, ids, options)),
    )
  withCommonOptions(redrive).addHelpText(
    'after',
    `
Each redrive is on record: who and why in the history of every dead letter, and
the operation as a whole in the audit. Ctrl-C stops it after the current batch;
run the same command again to continue.
Exits with 3 if it was stopped, or if some of the ids could not be moved.

Examples:
  redrive dlq redrive order-42 order-43
  redrive dlq redrive --kind send-email --dry-run
  redrive dlq redrive --code ECONNREFUSED --why 'the mail server is back'
  redrive dlq redrive --all --rate 50/s --yes`,
  )
}

function redriveLetters(
  context: CommandContext,
  ids: readonly string[],
  options: RedriveCommandOptions,
): Promise<ExitCode> {
  const selection = selectionOf(ids, options)
  return withStore(options, context.environment, store =>
    options.dryRun ? tryOut(context, store, selection, options) : move(context, store, selection, options),
  )
}

async function tryOut(
  context: CommandContext,
  store: Store,
  selection: LetterSelection,
  options: RedriveCommandOptions,
): Promise<ExitCode> {
  const { console } = context
  const makePlan = (sample: { sampleSize: number }) => planRedrive(store, selection, sample)
  const { count, refused } = await preview(context, store, options, makePlan)
  console.say(`${count} would be moved. This was a dry run: 0 moved.`)
  return endOf(count, refused)
}

async function move(
  context: CommandContext,
  store: Store,
  selection: LetterSelection,
  { output, why, rate: perSecond, yes }: RedriveCommandOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  const { count, refused } = await planRedrive(store, selection, { sampleSize: 0 })
  for (const { text } of refused) console.say(text)
  if (count > 0 && !yes) {
    await askFirst(environment, {
      question: `Give ${lettersText(count)} fresh attempts?`,
      effect: `This would move ${lettersText(count)}.`,
      nothing: '0 moved.',
    })
  }

  const { ids: moved, isStopped } = await withCount(
    context,
    { total: count, verb: 'moved', unit: 'batch', rest: 'Run the same command again to continue.' },
    progress => redriveDeadLetters(store, selection, { who: environment.user, why, perSecond, ...progress }),
  )
  writeResult(console, output, { moved: moved.length, ids: moved, refused, isStopped })
  console.say(`${moved.length} moved.`)
  if (!isStopped) return endOf(moved.length, refused)
  console.say('Stopped. The rest is unchanged: run the same command again to continue.')
  return ExitCode.partly
}
