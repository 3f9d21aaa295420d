import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Topology } from '../../bus/index.js'
import { OUTPUT_FORMATS, type OutputFormat } from '../terminal/output.js'
import type { BusOptions } from './open-bus.js'
import { nonEmpty } from './options.js'

/** The flags that say which bus, and what is known of it. */
export interface KnownBusOptions extends BusOptions {
  /** Queues that the broker does not tell of, and the type that each takes. */
  readonly queue?: Topology
}

/** The flags of every command for a bus that writes data. */
export interface BusOutputOptions extends KnownBusOptions {
  readonly output: OutputFormat
}

/** Adds the flags that say which bus. */
export function withBusOptions(command: Command): Command {
  return command
    .option('--bus <url>', 'amqp://…, amqps://…, nats://… or tls://… (or REDRIVE_BUS)', nonEmpty)
    .option(
      '--monitor <url>',
      "RabbitMQ's management or NATS's monitoring, such as http://localhost:15672 or :8222 (or REDRIVE_BUS_MONITOR)",
      nonEmpty,
    )
    .option('--queue <name=type>', 'a queue that the broker does not tell of; may be repeated', queueAndType)
}

/** Adds those, and the one that says how data is written. */
export function withBusOutputOptions(command: Command): Command {
  return withBusOptions(command).addOption(
    new Option('--output <format>', 'how data is written').choices(OUTPUT_FORMATS).default('table'),
  )
}

function queueAndType(text: string, before: Topology = {}): Topology {
  const [, queue, type] = /^([^=]+)=([^=]+)$/.exec(text) ?? []
  if (queue === undefined || type === undefined) {
    throw new InvalidArgumentError("It must be a queue and the type that it takes, such as 'chunking=json.parsed'.")
  }
  return { ...before, [queue]: type }
}
