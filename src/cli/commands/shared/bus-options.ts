import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Topology } from '../../../bus/index.js'
import { OUTPUT_FORMATS, type OutputFormat } from '../../terminal/output.js'
import type { BusOptions } from './open-bus.js'
import { nonEmpty } from './options.js'

/** The flags that name the bus, and what is known about it. */
export interface KnownBusOptions extends BusOptions {
  /** Queues that the broker does not list, and the type that each takes. */
  readonly queue?: Topology
}

/** The flags of every command for a bus that writes data. */
export interface BusOutputOptions extends KnownBusOptions {
  readonly output: OutputFormat
}

/** Adds the flags that name the bus. */
export function withBusOptions(command: Command): Command {
  return command
    .option('--bus <url>', 'URL of the bus: amqp://…, amqps://…, nats://… or tls://… (or REDRIVE_BUS)', nonEmpty)
    .option(
      '--monitor <url>',
      "URL of RabbitMQ's management or NATS's monitoring, such as http://localhost:15672 (or REDRIVE_BUS_MONITOR)",
      nonEmpty,
    )
    .option('--queue <name=type>', 'Queue that the broker does not list; may be repeated', queueAndType)
}

/** Adds the flags that name the bus, and the output format. */
export function withBusOutputOptions(command: Command): Command {
  return withBusOptions(command).addOption(
    new Option('--output <format>', 'Output format').choices(OUTPUT_FORMATS).default('table'),
  )
}

function queueAndType(text: string, before: Topology = {}): Topology {
  const [, queue, type] = /^([^=]+)=([^=]+)$/.exec(text) ?? []
  if (queue === undefined || type === undefined) {
    throw new InvalidArgumentError("It must be a queue and the type it takes, such as 'chunking=json.parsed'.")
  }
  return { ...before, [queue]: type }
}
