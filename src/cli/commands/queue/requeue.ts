import type { Command } from 'commander'
import { NoRouteError, planRequeue, type Requeued, requeueFailedQueue, startRequeue } from '../../../operate/index.js'
import type { Route } from '../../../operate/internal.js'
import { withoutSecrets } from '../../../telemetry/index.js'
import type { CommandContext } from '../../command.js'
import { CommandError, ExitCode } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { type OutputFormat, writeResult } from '../../terminal/output.js'
import { withCount } from '../../terminal/progress.js'
import { quoted } from '../../terminal/visible.js'
import { endOf } from '../dlq/letter-selection.js'
import { leaveOutside } from '../ops/text.js'
import { withBusOutputOptions } from '../shared/bus-options.js'
import { nonEmpty, rate, withLimitOption } from '../shared/options.js'
import { goOnText, type RecordOptions, withRecord, withRecordOptions } from '../shared/recorded.js'
import { presetFor, type QueueOptions, withPresetOption, withQueues } from './known-queues.js'

interface RequeueOptions extends QueueOptions, RecordOptions {
  readonly limit?: number
  readonly rate?: number
  readonly targetQueue?: string
  readonly dryRun?: boolean
  readonly output: OutputFormat
}

/** Adds `redrive queue requeue`. */
export function addRequeue(queue: Command, context: CommandContext): void {
  const requeue = queue
    .command('requeue')
    .description('Publish the messages of a failed queue again, oldest first')
    .argument('<queue>', 'Name of the failed queue')
    .option('--target-queue <queue>', 'Queue to publish into, instead of the one they came from', nonEmpty)
    .option('--rate <rate>', 'Maximum rate, such as 50/s', rate)
    .option('--dry-run', 'Show how many messages would be requeued, and requeue none')
    .action(async (name: string, options: RequeueOptions) => context.end(await requeueAll(context, name, options)))
  withBusOutputOptions(withPresetOption(withRecordOptions(withLimitOption(requeue)))).addHelpText(
    'after',
    `
Publishes the original event of each dead letter, and any other message as it
is, into the queue beside the failed queue. If there is none, the preset may
know the type to publish as ('redrive queue ls' shows it).

Each message is removed once the broker has confirmed its publish, so that none
is lost. If the command is killed, the last message may be published twice,
under the same id. Ctrl-C stops it after the current message.

With a store it is an operation on record: 'redrive ops' shows how far it is,
stops it and continues it, after a crash too. It takes no more messages than
there were when it was created. A queue has one such operation at a time. With
--detach, a running consumer of this bus and store carries it out.
Without a store nothing is recorded: run the same command again to continue.
Exits with 3 if it was stopped, or if the bus refused some messages: these stay.

Examples:
  redrive queue requeue chunking.failed --dry-run
  redrive queue requeue chunking.failed --limit 10
  redrive queue requeue orders.failed --target-queue orders.slow`,
  )
}

function requeueAll(context: CommandContext, name: string, options: RequeueOptions): Promise<ExitCode> {
  const { console, environment } = context
  const { limit, rate: perSecond, targetQueue: target, output } = options
  return withQueues(options, environment, async (bus, known) => {
    const { count, route } = await planRequeue(bus, name, { ...known, target, limit }).catch((error: unknown) => {
      throw error instanceof NoRouteError ? new CommandError(noRouteText(error, name, target)) : error
    })
    if (options.dryRun) {
      writeResult(console, output, { queue: name, route, wouldRequeue: count, requeued: 0 })
      console.say(`${count} would be requeued to ${routeText(route)}. This was a dry run: 0 requeued.`)
      return ExitCode.done
    }

    const counting = { total: count, verb: 'requeued', unit: 'message', rest: 'The rest is still in the queue.' }
    return withRecord(options, environment, async record => {
      const how = { ...known, target, limit, perSecond }
      if (options.detach && record !== undefined)
        return leaveOutside(context, output, await startRequeue(bus, name, { ...how, record }))
      const result = await withCount(context, counting, progress =>
        requeueFailedQueue(bus, name, { ...how, record, ...progress }),
      )
      return sayRequeued(console, output, name, result)
    })
  })
}

function sayRequeued(console: Console, output: OutputFormat, name: string, result: Requeued): ExitCode {
  writeResult(console, output, { queue: name, ...result })
  for (const { id, text } of result.kept) {
    console.say(`${id === null ? 'A message without an id' : quoted(id)} was kept: ${withoutSecrets(text)}`)
  }
  if (result.duplicates > 0) console.say(`${result.duplicates} removed: copies of dead letters that were requeued.`)
  console.say(`${result.requeued} requeued to ${routeText(result.route)}.`)
  if (result.isStopped) console.say(`Stopped. The rest is still in the queue. ${goOnText(result.operation)}`)
  return result.isStopped ? ExitCode.partly : endOf(result.requeued, result.kept.length)
}

function noRouteText(error: NoRouteError, name: string, target: string | undefined): string {
  if (target !== undefined) return `${error.message} 0 requeued.`
  const preset = presetFor(name)
  const flags = preset === undefined ? '--target-queue' : `--preset ${preset} or --target-queue`
  return `No route is known for ${quoted(name)}. Pass ${flags}. 0 requeued.`
}

function routeText({ queue, type }: Route): string {
  return queue === null ? `every queue for ${quoted(type)}` : quoted(queue)
}
