import type { Command } from 'commander'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode } from '../errors.js'
import { writeOne } from '../terminal/output.js'
import { type BusOutputOptions, withBusOutputOptions } from './bus-options.js'
import { withBus } from './open-bus.js'
import { findFailedQueue } from './queue-routes.js'
import { walk, withLimitOption } from './queue-walk.js'

interface PurgeOptions extends BusOutputOptions {
  readonly limit?: number
  readonly confirm?: boolean
  readonly dryRun?: boolean
}

/** Adds `redrive queue purge`. */
export function addPurge(queue: Command, context: CommandContext): void {
  const purge = queue
    .command('purge')
    .description('remove the messages of a failed queue for good, oldest first')
    .argument('<queue>', 'the failed queue')
    .option('--confirm', 'yes, remove them')
    .option('--dry-run', 'show how many would be removed, and remove none')
    .action(async (name: string, options: PurgeOptions) => context.end(await purgeAll(context, name, options)))
  withBusOutputOptions(withLimitOption(purge)).addHelpText(
    'after',
    `
Without --confirm or --dry-run it removes nothing and ends with 1. Export what
you may want to see again. Ctrl-C stops it after the message that is under way,
and ends with 3.

Examples:
  redrive queue export chunking.failed chunking-failed.json
  redrive queue purge chunking.failed --limit 100 --dry-run
  redrive queue purge chunking.failed --limit 100 --confirm`,
  )
}

function purgeAll(context: CommandContext, name: string, options: PurgeOptions): Promise<ExitCode> {
  const { console, environment } = context
  const { limit, confirm: isConfirmed = false, dryRun: isDryRun = false, output } = options
  return withBus(options, environment, async bus => {
    const queue = await findFailedQueue(bus, name, options.queue)
    const total = Math.min(queue.messages, limit ?? Infinity)
    const write = (result: object) =>
      output === 'table' || writeOne(console, output, { queue: name, ...result }, () => '')

    if (isDryRun) {
      write({ wouldRemove: total, removed: 0 })
      console.say(`${total} would be removed from '${name}'. This was a dry run: 0 removed.`)
      return ExitCode.done
    }
    if (!isConfirmed) {
      throw new CommandError(`This would remove ${total} from '${name}' for good: give --confirm. 0 removed.`)
    }

    const { count, isStopped } = await walk(context, bus, queue, { limit, done: 'removed' }, async message => {
      await message.remove()
      return true
    })
    write({ removed: count, isStopped })
    console.say(`${count} removed from '${name}'.`)
    if (!isStopped) return ExitCode.done
    console.say('Stopped: the rest is where it was.')
    return ExitCode.partly
  })
}
