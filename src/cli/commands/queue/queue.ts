import type { Command } from 'commander'
import {
  type FailedQueue,
  failedQueues,
  findFailedQueue,
  groupFailedQueue,
  type MessageView,
  messageView,
  walkFailedQueue,
} from '../../../operate/index.js'
import type { CommandContext } from '../../command.js'
import { ExitCode, UsageError } from '../../errors.js'
import type { Console } from '../../terminal/console.js'
import { type OutputFormat, writeList } from '../../terminal/output.js'
import { NAME_WIDTH, table } from '../../terminal/table.js'
import { quoted } from '../../terminal/visible.js'
import { storedRules, withRulesOption } from '../groups/stored-rules.js'
import { withBusOutputOptions } from '../shared/bus-options.js'
import type { StoreOptions } from '../shared/open-store.js'
import { wholeNumber } from '../shared/options.js'
import { addExport } from './export.js'
import { type QueueOptions, withPresetOption, withQueues } from './known-queues.js'
import { messageTable } from './message-table.js'
import { addPurge } from './purge.js'
import { addRequeue } from './requeue.js'
import { printSeenGroups } from './seen-groups-text.js'

interface QueueOutputOptions extends QueueOptions {
  readonly output: OutputFormat
}

interface GroupsOptions extends QueueOutputOptions, StoreOptions {
  readonly limit: number
}

const LISTED_BY_MONITOR = 'RabbitMQ lists its queues only with --monitor, such as --monitor http://localhost:15672.'
const WHICH = `Which queues? ${LISTED_BY_MONITOR} Or name them: --queue orders=order.placed.`
const NONE_OF_KNOWN = 'None of the queues that --queue or the preset names has a failed queue.'

/** Adds `redrive queue`. */
export function addQueue(program: Command, context: CommandContext): void {
  const queue = program
    .command('queue')
    .helpCommand(false)
    .description('List, show, group, export, requeue and purge the failed queues of a bus')

  const ls = queue
    .command('ls')
    .alias('list')
    .description('List failed queues, and where their messages would be requeued to')
    .action(async (options: QueueOutputOptions) => context.end(await listQueues(context, options)))
  withBusOutputOptions(withPresetOption(ls)).addHelpText(
    'after',
    `
NATS lists its queues. RabbitMQ needs its management plugin for that: without
--monitor, only the failed queues of --queue and of the preset are looked for.

Examples:
  redrive queue ls --bus nats://localhost
  redrive queue ls --bus amqp://localhost --monitor http://localhost:15672
  redrive queue ls --bus amqp://localhost --queue orders=order.placed`,
  )

  const show = queue
    .command('show')
    .alias('inspect')
    .description('Show the messages of a failed queue, oldest first; they stay there')
    .argument('<queue>', 'Name of the failed queue')
    .option('--limit <n>', 'Maximum number of messages, oldest first', wholeNumber(1, 10_000), 10)
    .action(async (name: string, options: QueueOutputOptions & { readonly limit: number }) =>
      context.end(await showQueue(context, name, options)),
    )
  withBusOutputOptions(show).addHelpText(
    'after',
    `
Examples:
  redrive queue show chunking.failed
  redrive queue show chunking.failed --limit 1 --output json
  redrive queue show chunking.failed --output jsonl | jq -r .body.last_error`,
  )

  const groups = queue
    .command('groups')
    .description('Group the messages of a failed queue that failed in the same way; they stay there')
    .argument('<queue>', 'Name of the failed queue')
    .option('--limit <n>', 'Maximum number of messages, oldest first', wholeNumber(1, 1_000_000), 10_000)
    .action(async (name: string, options: GroupsOptions) => context.end(await groupQueue(context, name, options)))
  withBusOutputOptions(withRulesOption(groups)).addHelpText(
    'after',
    `
Nothing counts the failures of a queue as they happen, so the figures are as of
this look, and --group does not select by these groups. The rules of the store
apply to them: redrive groups rule ls.

Examples:
  redrive queue groups chunking.failed
  redrive queue groups chunking.failed --output json | jq '.[0].pattern'`,
  )

  addExport(queue, context)
  addRequeue(queue, context)
  addPurge(queue, context)
}

function listQueues({ console, environment }: CommandContext, options: QueueOutputOptions): Promise<ExitCode> {
  return withQueues(options, environment, async (bus, known) => {
    const { queues, isComplete } = await failedQueues(bus, known)
    const isAnyKnown = Object.keys({ ...known.topology, ...known.routes }).length > 0
    if (!isComplete && !isAnyKnown) throw new UsageError(WHICH)
    writeList(console, options.output, queues, () => queueTable(queues, console))
    if (isComplete && queues.length === 0) console.say('No failed queues.')
    if (!isComplete) console.say(`${queues.length === 0 ? NONE_OF_KNOWN : 'There may be more.'} ${LISTED_BY_MONITOR}`)
    return ExitCode.done
  })
}

function groupQueue({ console, environment }: CommandContext, name: string, options: GroupsOptions): Promise<ExitCode> {
  return withQueues(options, environment, async bus => {
    const { messages: total } = await findFailedQueue(bus, name)
    const rules = await storedRules(options, environment)
    const seen = await groupFailedQueue(bus, name, { limit: options.limit, rules })
    printSeenGroups(console, options.output, seen, Math.max(total, seen.looked))
    return ExitCode.done
  })
}

function queueTable(queues: readonly FailedQueue[], console: Console): string {
  const columns = [{ title: 'FAILED QUEUE', minWidth: NAME_WIDTH }, { title: 'MESSAGES' }, { title: 'REQUEUED TO' }]
  const rows = queues.map(({ name, messages, route }) => ({
    cells: [name, String(messages), targetText(route)],
    paints: [undefined, messages > 0 ? console.paint.red : undefined],
  }))
  return table(columns, rows, console)
}

function targetText(route: FailedQueue['route']): string {
  if (route === null) return 'pass --target-queue'
  return route.queue ?? `every queue for ${route.type}`
}

function showQueue(
  { console, environment }: CommandContext,
  name: string,
  options: QueueOutputOptions & { readonly limit: number },
): Promise<ExitCode> {
  const { limit, output } = options
  return withQueues(options, environment, async bus => {
    const { messages: total } = await findFailedQueue(bus, name)
    const messages: MessageView[] = []
    for await (const message of walkFailedQueue(bus, name, { limit })) messages.push(messageView(message))
    writeList(console, output, messages, () => messageTable(messages, console, Date.now()))
    if (messages.length === 0) console.say(`${quoted(name)} is empty.`)
    else {
      const more = messages.length < total ? ` For all of them, pass --limit ${total}.` : ''
      console.say(`${messages.length} of ${total}, oldest first.${more}`)
    }
    return ExitCode.done
  })
}
