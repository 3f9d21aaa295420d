import type { NodeConnectionOptions } from '@nats-io/transport-node'
import { type Duration, OptionError, parseDuration } from '../../policy/index.js'
import { harmless, type OnTrouble } from '../trouble.js'
import { NatsConnection } from './connection.js'
import { loadDriver } from './driver.js'
import { NatsNames } from './names.js'
import { NatsBus } from './nats-bus.js'

/** How a NATS bus is used. */
export interface NatsOptions {
  /** What the names of streams and subjects begin with: a word. Default `redrive`. */
  readonly prefix?: string
  /** How many servers of a cluster keep each stream that is declared. Default 1. */
  readonly replicas?: number
  /** How long after a consumer has died what it had is delivered again. A consumer that lives renews it. Default 30 s. */
  readonly ackWait?: Duration
  /** How long a publish may take, waiting for a lost connection included. Default 30 s. */
  readonly timeout?: Duration
  /** Where the server's monitoring listens, such as `http://localhost:8222`: `examine` then sees when it writes to disk. */
  readonly monitorUrl?: string
  /** Told whenever the connection is lost or a consumer cannot go on; both are tried again by themselves. */
  readonly onTrouble?: OnTrouble
  /** What the client takes besides: credentials, TLS. */
  readonly connection?: NodeConnectionOptions
}

/**
 * Connects to NATS 2.9 or newer, with JetStream. Needs the packages `@nats-io/transport-node` and `@nats-io/jetstream`.
 *
 * ```ts
 * const bus = await openNats('nats://localhost')
 * await bus.declare({ chunking: 'json.parsed' })
 * ```
 */
export async function openNats(url: string, options: NatsOptions = {}): Promise<NatsBus> {
  const { prefix = 'redrive', replicas = 1, monitorUrl } = options
  if (!/^[\w-]+$/.test(prefix)) {
    throw new OptionError('prefix', `'prefix' must be a word of letters, digits, '-' and '_', got '${prefix}'.`)
  }
  const timeoutMs = above0('timeout', options.timeout ?? '30s')
  const ackWaitMs = above0('ackWait', options.ackWait ?? '30s')
  const driver = await loadDriver()
  const onTrouble = harmless(options.onTrouble)
  const connection = await NatsConnection.open(url, options.connection ?? {}, onTrouble)
  const names = new NatsNames(prefix)
  return new NatsBus({ connection, driver, names, replicas, ackWaitMs, timeoutMs, monitorUrl, onTrouble })
}

function above0(option: string, duration: Duration): number {
  const ms = parseDuration(duration)
  if (!ms)
    throw new OptionError(option, `'${option}' must be a duration above 0 such as '30s', got ${String(duration)}.`)
  return ms
}
