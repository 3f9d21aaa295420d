import type { Command } from 'commander'
import { cancelTasks } from '../../operate/index.js'
import type { CommandContext } from '../command.js'
import type { ExitCode } from '../errors.js'
import { writeResult } from '../terminal/output.js'
import { askFirst } from './ask-first.js'
import { endOf } from './letter-selection.js'
import { withStore } from './open-store.js'
import { type CommonOptions, nonEmpty, withCommonOptions } from './options.js'

interface CancelOptions extends CommonOptions {
  readonly why?: string
  readonly yes?: boolean
}

/** Adds `redrive task cancel`. */
export function addCancel(task: Command, context: CommandContext): void {
  const cancel = task
    .command('cancel')
    .description('End waiting tasks, and ask running ones to end')
    .argument('<ids...>', 'Ids of the tasks')
    .option('--why <text>', 'Reason, for the record', nonEmpty)
    .option('-y, --yes', 'Skip the confirmation prompt')
    .action(async (ids: string[], options: CancelOptions) => context.end(await cancelNamed(context, ids, options)))
  withCommonOptions(cancel).addHelpText(
    'after',
    `
A waiting task ends at once. The handler of a running one has its signal
aborted, and the task ends unless it succeeds first. Who and why are in the
audit log. Exits with 3 if some of the tasks could not be cancelled, and with 1
if none could.

Examples:
  redrive task cancel order-42
  redrive task cancel order-42 order-43 --why 'the customer withdrew' --yes`,
  )
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
    return endOf(cancelled.length, refused)
  })
}
