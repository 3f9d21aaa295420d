import { createHash } from 'node:crypto'
import type { Command } from 'commander'
import type { Bus, FailedMessage, Message } from '../../bus/index.js'
import { FinalError, OptionError } from '../../policy/index.js'
import type { CommandContext } from '../command.js'
import { CommandError, ExitCode } from '../errors.js'
import { writeOne } from '../terminal/output.js'
import { type BusOutputOptions, withBusOutputOptions } from './bus-options.js'
import { withBus } from './open-bus.js'
import { nonEmpty } from './options.js'
import { eventIn } from './queue-message.js'
import { findFailedQueue, type Route, routeInto, routeJson, routeText, typeOnRoute } from './queue-routes.js'
import { walk, withLimitOption } from './queue-walk.js'

interface RequeueOptions extends BusOutputOptions {
  readonly limit?: number
  readonly targetQueue?: string
  readonly dryRun?: boolean
}

/** A message that the bus does not take, and why. */
interface Kept {
  readonly id: string | null
  readonly why: string
}

/** Adds `redrive queue requeue`. */
export function addRequeue(queue: Command, context: CommandContext): void {
  const requeue = queue
    .command('requeue')
    .description('publish the messages of a failed queue again, oldest first')
    .argument('<queue>', 'the failed queue')
    .option('--target-queue <queue>', 'into this queue, instead of where they came from', nonEmpty)
    .option('--dry-run', 'show how many would be requeued, and requeue none')
    .action(async (name: string, options: RequeueOptions) => context.end(await requeueAll(context, name, options)))
  withBusOutputOptions(withLimitOption(requeue)).addHelpText(
    'after',
    `
Publishes the original event of each dead letter, and what is no dead letter as
it is: into the queue beside the failed queue, and where there is none, to all
queues that take the type of a well-known failed queue ('redrive queue list'
shows where). Each message is removed once the broker has confirmed the publish,
one by one, so that none is lost; if it is interrupted, the last one may be
published twice, under the same id.

Ctrl-C stops it after the message that is under way, and ends with 3; the same
command then goes on with the rest. It also ends with 3 if the bus did not take
some messages: these stay.

Examples:
  redrive queue requeue chunking.failed --dry-run
  redrive queue requeue chunking.failed --limit 10
  redrive queue requeue orders.failed --target-queue orders.slow`,
  )
}

function requeueAll(context: CommandContext, name: string, options: RequeueOptions): Promise<ExitCode> {
  const { console, environment } = context
  const { limit, targetQueue, dryRun: isDryRun = false, output } = options
  return withBus(options, environment, async bus => {
    const queue = await findFailedQueue(bus, name, options.queue)
    const route = targetQueue === undefined ? queue.route : await routeInto(bus, targetQueue, options.queue)
    if (route === undefined) {
      throw new CommandError(`Nobody knows where the messages of '${name}' came from: give --target-queue. 0 requeued.`)
    }
    const write = (result: object) =>
      output === 'table' || writeOne(console, output, { queue: name, target: routeJson(route), ...result }, () => '')

    if (isDryRun) {
      const count = Math.min(queue.messages, limit ?? Infinity)
      write({ wouldRequeue: count, requeued: 0 })
      console.say(`${count} would be requeued to ${routeText(route)}. This was a dry run: 0 requeued.`)
      return ExitCode.done
    }

    const kept: Kept[] = []
    const { count, isStopped } = await walk(context, bus, queue, { limit, done: 'requeued' }, async message => {
      const why = await requeueOne(bus, route, message)
      if (why === undefined) return true
      kept.push({ id: message.id ?? null, why })
      console.say(`${message.id === undefined ? 'A message without an id' : `'${message.id}'`} stays: ${why}`)
      return false
    })
    write({ requeued: count, kept, isStopped })
    console.say(`${count} requeued to ${routeText(route)}.`)
    if (isStopped) {
      console.say('Stopped: the rest is where it was. The same command goes on with it.')
      return ExitCode.partly
    }
    if (kept.length === 0) return ExitCode.done
    return count === 0 ? ExitCode.error : ExitCode.partly
  })
}

/** Publishes, then removes. Returns why the bus does not take the message, if that is the message's own fault. */
async function requeueOne(bus: Bus, route: Route, message: FailedMessage): Promise<string | undefined> {
  const type = typeOnRoute(route, message)
  const again = { id: idAgain(message), type, headers: message.headers, body: eventIn(message) }
  try {
    await (route.queue === undefined ? bus.publish(again) : bus.put(route.queue, again))
  } catch (error) {
    if (error instanceof FinalError || error instanceof OptionError) return error.message
    throw error
  }
  await message.remove()
  return undefined
}

const AGAIN = /\.again-[0-9a-f]{16}$/

/**
 * An id of its own, since whoever gave the event up knows it by the other. The same each time for the same message, so
 * that it is known if it is published twice.
 */
function idAgain({ id = '', body }: Message): string {
  const digest = createHash('sha256').update(`${id}\n`).update(body).digest('hex')
  const original = id.replace(AGAIN, '')
  return /^[\x21-\x7e]{1,150}$/.test(original) ? `${original}.again-${digest.slice(0, 16)}` : digest
}
