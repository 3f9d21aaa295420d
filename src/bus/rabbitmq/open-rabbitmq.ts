import { type Duration, OptionError, parseDuration } from '../../policy/index.js'
import { harmless, type OnTrouble } from '../trouble.js'
import { RabbitmqConnection } from './connection.js'
import { Management } from './management.js'
import { RabbitmqBus } from './rabbitmq-bus.js'

/** How a RabbitMQ bus is used. */
export interface RabbitmqOptions {
  /** The exchange that events are published to. Default `redrive`. */
  readonly exchange?: string
  /** How long a publish may take, waiting for a lost connection included. Default 30 s. */
  readonly timeout?: Duration
  /** Where the management plugin listens, such as `http://localhost:15672`: `examine` then sees policies too. */
  readonly managementUrl?: string
  /** Told whenever the connection is lost or a consumer cannot go on; both are tried again by themselves. */
  readonly onTrouble?: OnTrouble
}

/**
 * Connects to RabbitMQ 3.10 or newer. Needs the package `amqplib`.
 *
 * ```ts
 * const bus = await openRabbitmq('amqp://localhost')
 * await bus.declare({ chunking: 'json.parsed' })
 * ```
 */
export async function openRabbitmq(url: string, options: RabbitmqOptions = {}): Promise<RabbitmqBus> {
  const { exchange = 'redrive', timeout = '30s', managementUrl } = options
  const timeoutMs = parseDuration(timeout)
  if (!timeoutMs)
    throw new OptionError('timeout', `'timeout' must be a duration above 0 such as '30s', got ${String(timeout)}.`)
  const management = managementUrl === undefined ? undefined : new Management(managementUrl, url)
  const onTrouble = harmless(options.onTrouble)
  const connection = await RabbitmqConnection.open(url, onTrouble)
  return new RabbitmqBus({ connection, exchange, timeoutMs, management, onTrouble })
}
