import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream'
import type { NatsConnection as Connection, NodeConnectionOptions } from '@nats-io/transport-node'
import { BusClosedError, BusForbiddenError, BusUnavailableError } from '../errors.js'
import { reconnectDelayMs } from '../reconnect.js'
import type { TlsOptions } from '../tls-options.js'
import type { OnTrouble } from '../trouble.js'
import { within } from '../within.js'
import { natsAddress } from './address.js'
import { loadDriver } from './driver.js'

/** How to connect to NATS. */
export interface NatsConnectOptions {
  /** Certificates for TLS. Giving this option requires TLS, as `tls://` in the URL does. */
  readonly tls?: TlsOptions & {
    /** Whether the server expects TLS from the first byte (`handshake_first`). Default false. */
    readonly handshakeFirst?: boolean
  }
  /** Further options of the client, such as its `authenticator`. */
  readonly connection?: Omit<NodeConnectionOptions, 'servers' | 'port' | 'tls'> | undefined
}

/** The timeout of the first connection, and the interval of pings. */
const CONNECT_MS = 10_000
const PING_MS = 10_000

/** A connection to NATS that reconnects by itself and renews its subscriptions. */
export class NatsConnection {
  readonly #watchers = new Set<(isConnected: boolean) => void>()
  readonly #pending = new Set<() => void>()
  #isConnected = true
  readonly #waiting = new Set<() => void>()

  // biome-ignore lint/style/useConsistentMemberAccessibility: a constructor has no `#` form.
  private constructor(
    /** The name in error messages, without credentials. */
    readonly name: string,
    readonly client: Connection,
    readonly jetstream: JetStreamClient,
    readonly manager: JetStreamManager,
  ) {}

  /** Connects, without retrying the first time: a broker that cannot be reached at the start is usually a wrong URL. */
  static async open(
    url: string,
    { tls, connection }: NatsConnectOptions,
    onTrouble: OnTrouble,
  ): Promise<NatsConnection> {
    const { servers, hosts, name, credentials, isTls } = natsAddress(url)
    const { transport, jetstream } = await loadDriver()
    let attempts = 0
    const client = await transport
      .connect({
        ...credentials,
        timeout: CONNECT_MS,
        pingInterval: PING_MS,
        maxReconnectAttempts: -1,
        ignoreAuthErrorAbort: true,
        // Otherwise each publish captures a stack trace, which only the few failing ones need.
        noAsyncTraces: true,
        // The client calls this several times for one attempt.
        reconnectDelayHandler: () => reconnectDelayMs(Math.max(1, attempts)),
        ...connection,
        servers,
        // Any `tls`, even an empty one, makes the client insist on TLS.
        ...((isTls || tls !== undefined) && { tls: tlsFor(hosts, tls) }),
      })
      .catch(cause => {
        throw isRefusal(cause) ? new BusForbiddenError(name, { cause }) : new BusUnavailableError(name, { cause })
      })
    const manager = await jetstream.jetstreamManager(client).catch(async cause => {
      await client.close()
      throw new BusUnavailableError(`${name} with JetStream`, { cause })
    })
    const opened = new NatsConnection(name, client, jetstream.jetstream(client), manager)
    void opened.#watch(event => {
      if (event === 'disconnect') onTrouble(new BusUnavailableError(name))
      attempts = event === 'reconnecting' ? attempts + 1 : 0
    })
    return opened
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.client.isClosed()
  }

  /** Resolves once there is a connection. The client drops anything sent without one. */
  async connected(timeoutMs: number): Promise<void> {
    if (!this.#isConnected) {
      let wake = () => {}
      const back = new Promise<void>(resolve => {
        wake = resolve
      })
      this.#waiting.add(wake)
      const late = () => new BusUnavailableError(this.name)
      await within(back, timeoutMs, late).finally(() => this.#waiting.delete(wake))
    }
    if (this.client.isClosed()) throw new BusClosedError(this.name)
  }

  /** Waits for the server's answer. Rejects as soon as the connection is lost, since no answer will come then. */
  whileConnected<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const lose = () => reject(new BusUnavailableError(this.name))
      this.#pending.add(lose)
      answer.then(resolve, reject).finally(() => this.#pending.delete(lose))
    })
  }

  /** Calls back when the connection is lost, and when it is back. Returns a function that unsubscribes. */
  watch(callback: (isConnected: boolean) => void): () => void {
    this.#watchers.add(callback)
    return () => this.#watchers.delete(callback)
  }

  /** Flushes pending data, then disconnects. */
  async close(): Promise<void> {
    if (this.client.isClosed()) return
    if (this.#isConnected) await this.client.drain().catch(() => {})
    await this.client.close()
    for (const wake of this.#waiting) wake()
  }

  async #watch(tell: (event: 'disconnect' | 'reconnecting' | 'reconnect') => void): Promise<void> {
    for await (const { type } of this.client.status()) {
      if (type !== 'disconnect' && type !== 'reconnecting' && type !== 'reconnect') continue
      this.#isConnected = type === 'reconnect'
      tell(type)
      if (type === 'reconnecting') continue
      for (const wake of this.#isConnected ? this.#waiting : this.#pending) wake()
      for (const callback of this.#watchers) callback(this.#isConnected)
    }
  }
}

/** Whether the server answered, and does not let the user in. */
function isRefusal(cause: unknown): boolean {
  return cause instanceof Error && /^(Authorization|UserAuthentication)/.test(cause.name)
}

/**
 * Builds the TLS options, with a stricter check of the server's certificate. For a server given by its IP address the
 * client knows no name, and would accept any certificate for `localhost`. Here the certificate must be for one of the
 * hosts in the URL.
 */
function tlsFor(hosts: readonly string[], tls: NatsConnectOptions['tls']) {
  const check = (name: string, certificate: PeerCertificate) => {
    const names = name === 'localhost' && tls?.servername === undefined ? hosts : [name]
    const errors = names.map(name => checkServerIdentity(name, certificate))
    return errors.includes(undefined) ? undefined : errors[0]
  }
  return { ...tls, checkServerIdentity: check }
}
