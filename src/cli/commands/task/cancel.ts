import type { Command } from 'commander'
import { cancelTasks, planOperation } from '../../../operate/index.js'
import { actOnMany } from '../../../operate/internal.js'
import type { CommandContext } from '../../command.js'
import { ExitCode } from '../../errors.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { endOf, type SelectionOptions, selectionOf } from '../dlq/letter-selection.js'
import { endOfOperation, restText, sayNoMatch } from '../ops/text.js'
import { askFirst } from '../shared/ask-first.js'
import { withStore } from '../shared/open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions, withFilterOptions } from '../shared/options.js'

interface CancelOptions extends CommonOptions, SelectionOptions {
  readonly dryRun?: boolean
  readonly why?: string
  readonly yes?: boolean
}

/** Adds `redrive task cancel`. */
export function addCancel(task: Command, context: CommandContext): void {
  const cancel = task.command('cancel').description('End waiting tasks, and ask running ones to end')
  withFilterOptions(cancel.argument('[ids...]', 'Ids of the tasks'))
    .option('--all', 'Cancel every task that has not ended')
    .option('--dry-run', 'Say how many tasks would be cancelled, and cancel none')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (ids: string[], options: CancelOptions) => context.end(await cancelSelected(context, ids, options)))
  withCommonOptions(cancel).addHelpText(
    'after',
    `
A waiting task ends at once. The handler of a running one has its signal
aborted, and the task ends unless it succeeds first; asking again changes
nothing. Who and why are in its history and in the audit log. Exits with 3 if
some of the tasks could not be cancelled, and with 1 if none could. A filter
becomes an operation, on record: see redrive ops. It takes the tasks that were
submitted by now and have not ended.

Examples:
  redrive task cancel order-42
  redrive task cancel order-42 order-43 --why 'the customer withdrew' --yes
  redrive task cancel --kind send-newsletter --dry-run`,
  )
}

async function cancelSelected(
  context: CommandContext,
  ids: readonly string[],
  options: CancelOptions,
): Promise<ExitCode> {
  const select = selectionOf(ids, options, 'tasks')
  if (ids.length > 0 && !options.dryRun) return cancelNamed(context, ids, options)
  const { console, environment } = context
  return withStore(options, environment, async store => {
    const selection = await select(store)
    const { count } = await planOperation(store, 'cancel', selection)
    const tasks = `${count} ${count === 1 ? 'task' : 'tasks'}`
    if (options.dryRun) {
      const leftAlone = new Set(ids).size - count
      if (leftAlone > 0) console.say(`${leftAlone} cannot be cancelled: they have ended, or do not exist.`)
      console.say(`${tasks} would be cancelled. This was a dry run: 0 cancelled.`)
      return endOf(count, Math.max(0, leftAlone))
    }
    if (count > 0 && !options.yes) {
      await askFirst(environment, {
        question: `Cancel ${tasks}?`,
        effect: `This would cancel ${tasks}.`,
        nothing: '0 cancelled.',
      })
    }
    const operation = await withCount(
      context,
      { total: count, verb: 'cancelled', unit: 'batch', rest: restText(selection) },
      progress => actOnMany(store, 'cancel', selection, { who: environment.user, why: options.why, ...progress }),
    )
    if (operation !== undefined) return endOfOperation(context, store, options.output, operation)
    await sayNoMatch(context, store, selection, 'tasks')
    writeResult(console, options.output, { cancelled: 0, isStopped: false, operation: null })
    console.say('0 cancelled.')
    return ExitCode.done
  })
}

function cancelNamed(
  { console, environment }: CommandContext,
  ids: readonly string[],
  options: CancelOptions,
): Promise<ExitCode> {
  return withStore(options, environment, async store => {
    const named = new Set(ids).size
    if (!options.yes) {
      const tasks = `${named} ${named === 1 ? 'task' : 'tasks'}`
      await askFirst(environment, {
        question: `Cancel ${tasks}?`,
        effect: `This would cancel ${tasks}.`,
        nothing: '0 cancelled.',
      })
    }
    const by = { who: environment.user, ...(options.why !== undefined && { why: options.why }) }
    const { ids: cancelled, refused } = await cancelTasks(store, ids, by)
    for (const { text } of refused) console.say(text)
    writeResult(console, options.output, { cancelled: cancelled.length, ids: cancelled, refused })
    console.say(`${cancelled.length} cancelled.`)
    return endOf(cancelled.length, refused.length)
  })
}
