import { type Duration, OptionError, parseDuration } from '../../policy/index.js'
import { checkOptions, type KnownOptions } from '../../policy/internal.js'
import { brokerUrl, hostIn, takeParameter } from '../broker-url.js'
import type { TlsOptions } from '../tls-options.js'
import { harmless, type OnTrouble } from '../trouble.js'
import { RabbitmqConnection } from './connection.js'
import { Management } from './management.js'
import { RabbitmqBus } from './rabbitmq-bus.js'

/** The options of a RabbitMQ bus. */
export interface RabbitmqOptions {
  /** The exchange to publish events to. Default `redrive`. */
  readonly exchange?: string | undefined
  /** The longest that a publish may take, including the wait for a lost connection. Default 30 s. */
  readonly timeout?: Duration | undefined
  /**
   * The URL of the management plugin, such as `http://user:password@localhost:15672`: `examine` then sees policies too. It
   * is not sent the credentials of the bus.
   */
  readonly managementUrl?: string | undefined
  /** Called when the connection is lost or a consumer fails. Both recover by themselves. */
  readonly onTrouble?: OnTrouble | undefined
  /** Certificates for `amqps://`, and for a `managementUrl` with `https://`. */
  readonly tls?: TlsOptions | undefined
}

const RABBITMQ_OPTIONS: KnownOptions<RabbitmqOptions> = {
  exchange: '',
  timeout: '',
  managementUrl: '',
  onTrouble: 'function',
  tls: 'object',
}

const DEFAULT_EXCHANGE = 'redrive'
/** Parameters of a URL that amqplib reads. */
const DRIVER_PARAMETERS = ['channelMax', 'frameMax', 'heartbeat', 'locale']
/** The path of a URL that names the virtual host `/`. */
const DEFAULT_VHOST = /^\/?(?:\/|%2f)?$/i

/**
 * Connects to RabbitMQ 3.10 or newer. Needs the package `amqplib`.
 *
 * ```ts
 * const bus = await openRabbitmq('amqp://localhost')
 * await bus.declare({ chunking: 'json.parsed' })
 * ```
 *
 * The URL may name the exchange, as it does for the command: `amqp://localhost?exchange=NAME`.
 */
export async function openRabbitmq(url: string, options: RabbitmqOptions = {}): Promise<RabbitmqBus> {
  checkOptions('openRabbitmq()', options, RABBITMQ_OPTIONS)
  const { url: address, value } = takeParameter(url, 'exchange', DRIVER_PARAMETERS)
  const { exchange = value ?? DEFAULT_EXCHANGE, timeout = '30s', managementUrl, tls } = options
  const timeoutMs = parseDuration(timeout)
  if (!timeoutMs)
    throw new OptionError('timeout', `'timeout' must be a duration above 0 such as '30s', got ${String(timeout)}.`)
  const target = brokerUrl(address, 'url', ['amqp:', 'amqps:'])
  if (tls !== undefined && target.protocol === 'amqp:')
    throw new OptionError('tls', `'tls' needs a URL that begins with amqps://; amqp:// is not encrypted.`)
  const management = managementUrl === undefined ? undefined : new Management(managementUrl, target, tls)
  const onTrouble = harmless(options.onTrouble)
  const connection = await RabbitmqConnection.open(target, onTrouble, tls)
  return new RabbitmqBus({
    address: addressOf(target, exchange),
    connection,
    exchange,
    timeoutMs,
    management,
    onTrouble,
  })
}

/** The address of a bus in one spelling: `amqp://host/` and `amqp://HOST:5672/%2F` name the same. */
export function addressOf(url: URL, exchange: string): string {
  const host = hostIn(url, url.protocol === 'amqps:' ? 5671 : 5672)
  const path = DEFAULT_VHOST.test(url.pathname) ? '' : url.pathname
  return `${url.protocol}//${host}${path}${exchange === DEFAULT_EXCHANGE ? '' : `?exchange=${exchange}`}`
}
