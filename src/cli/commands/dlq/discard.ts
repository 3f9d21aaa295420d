import type { Command } from 'commander'
import { discardDeadLetters, type LetterSelection, planDiscard } from '../../../operate/index.js'
import type { StoreContract } from '../../../store/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { endOfOperation, restText, sayNoMatch } from '../ops/text.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions } from '../shared/options.js'
import { endOf, lettersText, preview, type SelectionOptions, selectionOf, withSelection } from './letter-selection.js'

interface DiscardCommandOptions extends CommonOptions, SelectionOptions {
  readonly why: string
  readonly dryRun?: boolean
  readonly yes?: boolean
}

/** Adds `redrive dlq discard`. */
export function addDiscard(dlq: Command, context: CommandContext): void {
  const discard = dlq.command('discard').description('Give dead letters up for good; they stay on record as cancelled')
  withSelection(discard, 'Discard')
    .requiredOption('--why <text>', 'Reason, for the record', nonEmpty)
    .option('--dry-run', 'Show which dead letters would be discarded, and discard none')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (ids: string[], options: DiscardCommandOptions) =>
      context.end(await discardLetters(context, ids, options)),
    )
  withCommonOptions(discard).addHelpText(
    'after',
    `
Nothing is deleted: a discarded task is cancelled, keeps its payload, its error
and its history, and says who discarded it and why. It is deleted with other
ended work: see redrive prune. It cannot be redriven any more, but what a filter
discarded can be put back until then: see redrive ops undo. Dead items of
pipelines are left alone, since their run counts them.
Exits with 3 if it was stopped, or if some dead letters were left alone, and
with 1 if all were.

Examples:
  redrive dlq discard order-42 --why 'refunded by hand'
  redrive dlq discard --kind send-email --code http_410 --why 'gone' --dry-run`,
  )
}

function discardLetters(
  context: CommandContext,
  ids: readonly string[],
  options: DiscardCommandOptions,
): Promise<ExitCode> {
  const select = selectionOf(ids, options)
  return withStore(options, context.environment, async store => {
    const selection = await select(store)
    return options.dryRun ? tryOut(context, store, selection, options) : discardAll(context, store, selection, options)
  })
}

async function tryOut(
  context: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  options: DiscardCommandOptions,
): Promise<ExitCode> {
  const { console } = context
  const makePlan = (sample: { sampleSize: number }) => planDiscard(store, selection, sample)
  const { count, refused, items } = await preview(context, store, options, makePlan)
  sayItems(console, selection, items)
  console.say(`${count} would be discarded. This was a dry run: 0 discarded.`)
  return endOf(count, refused.length + ('ids' in selection ? 0 : items))
}

async function discardAll(
  context: CommandContext,
  store: StoreContract,
  selection: LetterSelection,
  { output, why, yes }: DiscardCommandOptions,
): Promise<ExitCode> {
  const { console, environment } = context
  const { count, refused, items } = await planDiscard(store, selection, { sampleSize: 0 })
  for (const { text } of refused) console.say(text)
  sayItems(console, selection, items)
  if (count === 0 && items === 0 && !('ids' in selection)) await sayNoMatch(context, store, selection, 'dead letters')
  if (count > 0 && !yes) {
    await askFirst(environment, {
      question: `Discard ${lettersText(count)} for good?`,
      effect: `This would discard ${lettersText(count)} for good.`,
      nothing: '0 discarded.',
    })
  }

  const { discarded, ids, isStopped, operation } = await withCount(
    context,
    { total: count, verb: 'discarded', unit: 'batch', rest: restText(selection) },
    progress => discardDeadLetters(store, selection, { who: environment.user, why, ...progress }),
  )
  if (operation !== undefined) return endOfOperation(context, store, output, operation)
  writeResult(console, output, { discarded, ids, refused, isStopped })
  console.say(`${discarded} discarded.`)
  return isStopped ? ExitCode.partly : endOf(discarded, refused.length)
}

/** Items that were named are refused one by one. */
function sayItems(console: Console, selection: LetterSelection, items: number): void {
  if (items === 0 || 'ids' in selection) return
  console.say(`${items} dead ${items === 1 ? 'item of a pipeline is' : 'items of pipelines are'} left alone.`)
}
