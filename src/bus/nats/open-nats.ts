import { type Duration, OptionError, parseDuration } from '../../policy/index.js'
import { checkOptions, type KnownOptions } from '../../policy/internal.js'
import { monitoringUrl, takeParameter } from '../broker-url.js'
import { harmless, type OnTrouble } from '../trouble.js'
import { natsAddress } from './address.js'
import { NatsConnection, type NatsConnectOptions } from './connection.js'
import { loadDriver } from './driver.js'
import { NatsNames } from './names.js'
import { NatsBus } from './nats-bus.js'

/** The options of a NATS bus. */
export interface NatsOptions extends NatsConnectOptions {
  /** The prefix of the names of streams and subjects: one word. Default `redrive`. */
  readonly prefix?: string | undefined
  /** The number of servers of a cluster that keep each declared stream. Default 1. */
  readonly replicas?: number | undefined
  /** How long after a consumer's death its deliveries come again. A live consumer renews them. Default 30 s. */
  readonly ackWait?: Duration | undefined
  /** The longest that a publish may take, including the wait for a lost connection. Default 30 s. */
  readonly timeout?: Duration | undefined
  /** The URL of the server's monitoring, such as `http://localhost:8222`: `examine` then sees when it writes to disk. */
  readonly monitorUrl?: string | undefined
  /** Called when the connection is lost or a consumer fails. Both recover by themselves. */
  readonly onTrouble?: OnTrouble | undefined
}

const NATS_OPTIONS: KnownOptions<NatsOptions> = {
  prefix: '',
  replicas: '',
  ackWait: '',
  timeout: '',
  monitorUrl: '',
  onTrouble: 'function',
  tls: 'object',
  connection: 'object',
}

const DEFAULT_PREFIX = 'redrive'

/**
 * Connects to NATS 2.9 or newer, with JetStream. Needs the packages `@nats-io/transport-node` and `@nats-io/jetstream`.
 *
 * ```ts
 * const bus = await openNats('nats://localhost')
 * await bus.declare({ chunking: 'json.parsed' })
 * ```
 *
 * The URL may list the servers of a cluster, with commas between them. `tls://` refuses a server without TLS. As
 * for the command, `?prefix=NAME` at one of them is the prefix.
 */
export async function openNats(url: string, options: NatsOptions = {}): Promise<NatsBus> {
  checkOptions('openNats()', options, NATS_OPTIONS)
  const { url: servers, value } = takeParameter(url, 'prefix')
  const { prefix = value ?? DEFAULT_PREFIX, replicas = 1, tls } = options
  if (!/^[\w-]+$/.test(prefix)) {
    throw new OptionError('prefix', `'prefix' must be a word of letters, digits, '-' and '_', got '${prefix}'.`)
  }
  const timeoutMs = above0('timeout', options.timeout ?? '30s')
  const ackWaitMs = above0('ackWait', options.ackWait ?? '30s')
  const monitorUrl = options.monitorUrl === undefined ? undefined : monitoringUrl(options.monitorUrl, 'monitorUrl')
  const driver = await loadDriver()
  const onTrouble = harmless(options.onTrouble)
  const connection = await NatsConnection.open(servers, options, onTrouble)
  const names = new NatsNames(prefix)
  const address = `nats://${natsAddress(servers).cluster}${prefix === DEFAULT_PREFIX ? '' : `?prefix=${prefix}`}`
  return new NatsBus({ address, connection, driver, names, replicas, ackWaitMs, timeoutMs, monitorUrl, tls, onTrouble })
}

function above0(option: string, duration: Duration): number {
  const ms = parseDuration(duration)
  if (!ms)
    throw new OptionError(option, `'${option}' must be a duration above 0 such as '30s', got ${String(duration)}.`)
  return ms
}
