import type { JetStreamClient, JetStreamManager } from '@nats-io/jetstream'
import type { NatsConnection as Connection, NodeConnectionOptions } from '@nats-io/transport-node'
import { BusClosedError, BusUnavailableError } from '../errors.js'
import { reconnectDelayMs } from '../reconnect.js'
import type { OnTrouble } from '../trouble.js'
import { within } from '../within.js'
import { loadDriver } from './driver.js'

/** How long the first connection may take, and how often a silent one is asked whether it is alive. */
const CONNECT_MS = 10_000
const PING_MS = 10_000

/** A connection to NATS that comes back by itself, subscriptions included. */
export class NatsConnection {
  readonly #watchers = new Set<() => void>()
  readonly #pending = new Set<() => void>()
  #isConnected = true
  readonly #waiting = new Set<() => void>()

  // biome-ignore lint/style/useConsistentMemberAccessibility: a constructor has no `#` form.
  private constructor(
    /** As it is called in messages: without its password. */
    readonly name: string,
    readonly client: Connection,
    readonly jetstream: JetStreamClient,
    readonly manager: JetStreamManager,
  ) {}

  /** Connects once: a broker that is not there at the start is most often a wrong url. */
  static async open(url: string, options: NodeConnectionOptions, onTrouble: OnTrouble): Promise<NatsConnection> {
    const { transport, jetstream } = await loadDriver()
    const { servers, name, credentials } = addressOf(url)
    let attempts = 0
    const client = await transport
      .connect({
        servers,
        ...credentials,
        timeout: CONNECT_MS,
        pingInterval: PING_MS,
        maxReconnectAttempts: -1,
        ignoreAuthErrorAbort: true,
        // It would take a stack trace for each publish, for the few that fail.
        noAsyncTraces: true,
        // Asked several times for one attempt.
        reconnectDelayHandler: () => reconnectDelayMs(Math.max(1, attempts)),
        ...options,
      })
      .catch(cause => {
        throw new BusUnavailableError(name, { cause })
      })
    const manager = await jetstream.jetstreamManager(client).catch(async cause => {
      await client.close()
      throw new BusUnavailableError(`${name} with JetStream`, { cause })
    })
    const connection = new NatsConnection(name, client, jetstream.jetstream(client), manager)
    void connection.#watch(event => {
      if (event === 'disconnect') onTrouble(new BusUnavailableError(name))
      attempts = event === 'reconnecting' ? attempts + 1 : 0
    })
    return connection
  }

  get isConnected(): boolean {
    return this.#isConnected && !this.client.isClosed()
  }

  /** Resolves once there is a connection. What is sent while there is none would be thrown away. */
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

  /** What the server answers; rejects as soon as the connection is lost, since then no answer will come. */
  whileConnected<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const lose = () => reject(new BusUnavailableError(this.name))
      this.#pending.add(lose)
      answer.then(resolve, reject).finally(() => this.#pending.delete(lose))
    })
  }

  /** Calls back when the connection has come back. Returns what stops that. */
  onBack(callback: () => void): () => void {
    this.#watchers.add(callback)
    return () => this.#watchers.delete(callback)
  }

  /** Sends what is to be sent, then disconnects. */
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
      if (type === 'disconnect') for (const lose of this.#pending) lose()
      if (type !== 'reconnect') continue
      for (const wake of this.#waiting) wake()
      for (const callback of this.#watchers) callback()
    }
  }
}

/** What a url says: one server or, with commas, several of a cluster; and who connects, which the client wants apart. */
function addressOf(url: string) {
  const urls = url.split(',').map(server => new URL(server.includes('://') ? server : `nats://${server}`))
  const [username = '', password = ''] = [urls[0]?.username, urls[0]?.password].map(text =>
    decodeURIComponent(text ?? ''),
  )
  const hosts = urls.map(({ host }) => host)
  return {
    name: `NATS at ${hosts.join(', ')}`,
    servers: urls.map(({ protocol, host }) => `${protocol}//${host}`),
    credentials: username === '' ? {} : password === '' ? { token: username } : { user: username, pass: password },
  }
}
