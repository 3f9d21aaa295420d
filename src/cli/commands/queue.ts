import type { Command } from 'commander'
import type { FailedMessage } from '../../bus/index.js'
import type { CommandContext } from '../command.js'
import { ExitCode } from '../errors.js'
import { writeList } from '../terminal/output.js'
import { table } from '../terminal/table.js'
import { type BusOutputOptions, withBusOutputOptions } from './bus-options.js'
import { withBus } from './open-bus.js'
import { wholeNumber } from './options.js'
import { addExport } from './queue-export.js'
import { messageJson, messageTable } from './queue-message.js'
import { addPurge } from './queue-purge.js'
import { addRequeue } from './queue-requeue.js'
import { findFailedQueue, lookAt, type Route, routeJson, survey } from './queue-routes.js'

/** Adds `redrive queue`. */
export function addQueue(program: Command, context: CommandContext): void {
  const queue = program
    .command('queue')
    .helpCommand(false)
    .description('the failed queues of the bus: look at them, requeue their messages')

  const list = queue
    .command('list')
    .description('list the failed queues, and where their messages would be requeued to')
    .action(async (options: BusOutputOptions) => context.end(await listQueues(context, options)))
  withBusOutputOptions(list).addHelpText(
    'after',
    `
NATS tells which queues it has; RabbitMQ tells through its management plugin.
Without --monitor, RabbitMQ is asked for those of --queue, and for well-known
ones.

Examples:
  redrive queue list --bus nats://localhost
  redrive queue list --bus amqp://localhost --monitor http://localhost:15672
  redrive queue list --bus amqp://localhost --queue orders=order.placed`,
  )

  const inspect = queue
    .command('inspect')
    .description('show the messages of a failed queue, oldest first; they stay')
    .argument('<queue>', 'the failed queue')
    .option('--limit <n>', 'so many at most, the oldest', wholeNumber(1, 10_000), 10)
    .action(async (name: string, options: InspectOptions) => context.end(await inspectQueue(context, name, options)))
  withBusOutputOptions(inspect).addHelpText(
    'after',
    `
Examples:
  redrive queue inspect chunking.failed
  redrive queue inspect chunking.failed --limit 1 --output json
  redrive queue inspect chunking.failed --output jsonl | jq -r .body.last_error`,
  )

  addExport(queue, context)
  addRequeue(queue, context)
  addPurge(queue, context)
}

interface InspectOptions extends BusOutputOptions {
  readonly limit: number
}

function listQueues({ console, environment }: CommandContext, options: BusOutputOptions): Promise<ExitCode> {
  return withBus(options, environment, async bus => {
    const { topology, failedQueues, isComplete } = await survey(bus, options.queue)
    const queues = await lookAt(bus, failedQueues, topology)
    const columns = [{ title: 'FAILED QUEUE', mayShrink: true }, { title: 'MESSAGES' }, { title: 'REQUEUED TO' }]
    writeList(console, options.output, queues, {
      toJson: ({ name, messages, route }) => ({ queue: name, messages, target: routeJson(route) }),
      toTable: () =>
        table(
          columns,
          queues.map(({ name, messages, route }) => ({
            cells: [name, String(messages), targetText(route)],
            paints: [undefined, messages > 0 ? console.paint.red : undefined],
          })),
          console,
        ),
    })
    if (queues.length === 0) console.say('No failed queues.')
    if (!isComplete) {
      console.say('There may be more: RabbitMQ tells which with --monitor, such as http://localhost:15672.')
    }
    return ExitCode.done
  })
}

function targetText(route: Route | undefined): string {
  if (route === undefined) return 'give --target-queue'
  return route.queue ?? `all that take ${route.type}`
}

function inspectQueue({ console, environment }: CommandContext, name: string, options: InspectOptions) {
  const { limit, output } = options
  return withBus(options, environment, async bus => {
    const { messages: total } = await findFailedQueue(bus, name, options.queue)
    const messages: FailedMessage[] = []
    for await (const message of bus.browse(name, { limit })) messages.push(message)
    writeList(console, output, messages, {
      toJson: messageJson,
      toTable: () => messageTable(messages, console, Date.now()),
    })
    if (messages.length === 0) console.say(`'${name}' is empty.`)
    else
      console.say(
        `${messages.length} of ${total}, oldest first.${messages.length < total ? ` More: --limit ${total}` : ''}`,
      )
    return ExitCode.done
  })
}
