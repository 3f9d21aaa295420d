import type { Command } from 'commander'
import { findFailedQueue, purgeFailedQueue } from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import type { Environment } from '../../environment.js'
import { CommandError, ExitCode } from '../../errors.js'
import { confirm } from '../../terminal/confirm.js'
import { writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { quoted } from '../../terminal/visible.js'
import { type BusOutputOptions, withBusOutputOptions } from '../shared/bus-options.js'
import { withLimitOption } from '../shared/options.js'
import { withQueues } from './known-queues.js'

interface PurgeOptions extends BusOutputOptions {
  readonly limit?: number
  readonly yes?: boolean
  readonly confirm?: boolean
  readonly dryRun?: boolean
}

/** Adds `redrive queue purge`. */
export function addPurge(queue: Command, context: CommandContext): void {
  const purge = queue
    .command('purge')
    .description('Remove the messages of a failed queue for good, oldest first')
    .argument('<queue>', 'Name of the failed queue')
    .option('-y, --yes', 'Skip the confirmation prompt')
    .option('--confirm', 'Same as --yes')
    .option('--dry-run', 'Show how many messages would be removed, and remove none')
    .action(async (name: string, options: PurgeOptions) => context.end(await purgeAll(context, name, options)))
  withBusOutputOptions(withLimitOption(purge)).addHelpText(
    'after',
    `
Asks for confirmation; without a terminal to ask on, pass --yes. Unless it is
confirmed, it removes nothing and exits with 1. Export the messages first if
you may need them again. Ctrl-C stops it after the current message, and exits
with 3.

Examples:
  redrive queue export chunking.failed chunking-failed.json
  redrive queue purge chunking.failed --limit 100 --dry-run
  redrive queue purge chunking.failed --limit 100 --yes`,
  )
}

function purgeAll(context: CommandContext, name: string, options: PurgeOptions): Promise<ExitCode> {
  const { console, environment } = context
  const { limit, output } = options
  return withQueues(options, environment, async bus => {
    const { messages } = await findFailedQueue(bus, name)
    const total = Math.min(messages, limit ?? messages)
    if (options.dryRun) {
      writeResult(console, output, { queue: name, wouldRemove: total, removed: 0 })
      console.say(`${total} would be removed from ${quoted(name)}. This was a dry run: 0 removed.`)
      return ExitCode.done
    }
    if (!(options.yes || options.confirm)) await askFirst(environment, name, total)

    const counting = { total, verb: 'removed', unit: 'message', rest: 'The rest is still in the queue.' }
    const result = await withCount(context, counting, progress => purgeFailedQueue(bus, name, { limit, ...progress }))
    writeResult(console, output, { queue: name, ...result })
    console.say(`${result.removed} removed from ${quoted(name)}.`)
    if (!result.isStopped) return ExitCode.done
    console.say('Stopped. The rest is still in the queue.')
    return ExitCode.partly
  })
}

/** A purge that is not confirmed exits with 1, as in the tool that it replaces. */
async function askFirst(environment: Environment, name: string, count: number): Promise<void> {
  const messages = `${count} ${count === 1 ? 'message' : 'messages'}`
  switch (await confirm(environment, `Remove ${messages} from ${quoted(name)} for good?`)) {
    case 'yes':
      return
    case 'no':
      throw new CommandError('Not confirmed. 0 removed.')
    case 'unasked':
      throw new CommandError(
        `This would remove ${messages} from ${quoted(name)} for good. To confirm, pass --yes. 0 removed.`,
      )
  }
}
