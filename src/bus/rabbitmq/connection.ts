import { Socket } from 'node:net'
import type { Channel, ChannelModel, ConfirmChannel, RecoveringChannelModel } from 'amqplib'
import { RedriveError } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'
import { BusClosedError, BusForbiddenError, BusUnavailableError } from '../errors.js'
import { reconnectDelayMs } from '../reconnect.js'
import type { TlsOptions } from '../tls-options.js'
import type { OnTrouble } from '../trouble.js'
import { within } from '../within.js'
import { closeReason, loadDriver } from './driver.js'
import { surviveHeaders } from './unreadable-headers.js'

/** The time limit for the first connection, and the interval of heartbeats. */
const CONNECT_MS = 10_000
const HEARTBEAT_SECONDS = 10
/** How long closing waits for the broker, which does not answer on a dead connection or when memory or disk run low. */
const CLOSE_MS = 5000

/** A connection to RabbitMQ that reconnects by itself. Whoever uses a channel reopens it. */
export class RabbitmqConnection {
  /** The name used in messages, without the password. */
  readonly name: string
  readonly #model: RecoveringChannelModel
  /** Destroys the current or latest connection without a handshake. */
  readonly #drop: () => void
  #isClosed = false

  // biome-ignore lint/style/useConsistentMemberAccessibility: a constructor has no `#` form.
  private constructor(name: string, model: RecoveringChannelModel, drop: () => void) {
    this.name = name
    this.#model = model
    this.#drop = drop
  }

  /** Connects without retrying: a broker that is missing at the start is most often a wrong URL. */
  static async open(url: URL, onTrouble: OnTrouble, tls?: TlsOptions): Promise<RabbitmqConnection> {
    const driver = await loadDriver()
    const target = new URL(url)
    const name = `RabbitMQ at ${target.host}`
    if (!target.searchParams.has('heartbeat')) target.searchParams.set('heartbeat', String(HEARTBEAT_SECONDS))
    const recovery = { initialMaxRetries: 0, waitForConnect: false, calculateDelay: reconnectDelayMs }
    const model = await driver.connect(target.href, { ...tls, timeout: CONNECT_MS, noDelay: true, recovery })
    const tell = (cause: Error) => onTrouble(new BusUnavailableError(name, { cause }))
    let latest: ChannelModel | undefined
    // A lost connection may not know it yet, and its socket would keep the process alive.
    const drop = () => latest && socketOf(latest)?.destroy(new BusUnavailableError(name))
    model.on('error', () => {}).on('disconnect', drop)
    model.on('connect', connected => {
      latest = connected
      surviveHeaders(connected)
    })
    try {
      await model.waitForConnect()
    } catch (cause) {
      throw refusal(name, target, cause) ?? new BusUnavailableError(name, { cause })
    }
    model.on('disconnect', tell).on('connect-failed', tell)
    model.on('blocked', reason => tell(new Error(`It accepts no publishes at the moment: ${reason}.`)))
    return new RabbitmqConnection(name, model, drop)
  }

  /** Opens a channel as soon as there is a connection. */
  async channel(timeoutMs = Infinity): Promise<Channel> {
    return this.#make(() => this.#model.createChannel(), timeoutMs)
  }

  /** Asks the broker on a separate channel, because a refusal closes the channel. */
  async ask<T>(timeoutMs: number, question: (channel: Channel) => Promise<T>): Promise<T> {
    const channel = await this.channel(timeoutMs)
    try {
      return await question(channel)
    } catch (cause) {
      // Without a reason from the broker, the channel closed because the connection did.
      const isAnswered = cause instanceof RedriveError || closeReason(cause).code !== 0
      throw isAnswered ? cause : new BusUnavailableError(this.name, { cause })
    } finally {
      await closeChannel(channel)
    }
  }

  /** Opens a channel with publisher confirms as soon as there is a connection. */
  async confirmChannel(timeoutMs: number): Promise<ConfirmChannel> {
    return this.#make(() => this.#model.createConfirmChannel(), timeoutMs)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await within(this.#model.close(), CLOSE_MS, () => new BusUnavailableError(this.name)).catch(this.#drop)
  }

  async #make<C extends Channel>(create: () => Promise<C>, timeoutMs: number): Promise<C> {
    if (this.#isClosed) throw new BusClosedError(this.name)
    const late = () => new BusUnavailableError(this.name)
    const created = create().then(channel => {
      // Whoever waits on the channel learns why it closed; without a listener, the event would end the process.
      channel.on('error', () => {})
      return channel
    })
    return within(created, timeoutMs, late).catch(cause => {
      // The channel still opens once there is a connection, and then belongs to nobody.
      created.then(closeChannel).catch(() => {})
      if (this.#isClosed) throw new BusClosedError(this.name)
      throw cause instanceof BusUnavailableError ? cause : new BusUnavailableError(this.name, { cause })
    })
  }
}

/** The error of a broker that answered, and does not let the user in; `undefined` for any other cause. */
function refusal(name: string, { pathname }: URL, cause: unknown): BusForbiddenError | undefined {
  const text = cause instanceof Error ? cause.message : ''
  if (text.includes('ACCESS-REFUSED')) return new BusForbiddenError(name, { cause })
  // The driver does not repeat the answer to the opening of a virtual host.
  if (!text.startsWith('Expected ConnectionOpenOk')) return undefined
  const host = pathname === '' ? '/' : decodeURIComponent(pathname)
  const reason = `The virtual host ${quoted(host)} does not exist, or this user may not use it`
  return new BusForbiddenError(name, { cause: new Error(reason, { cause }) })
}

/** Closes a channel. The driver alone would wait for ever if the connection is lost before the broker answers. */
export async function closeChannel(channel: Channel): Promise<void> {
  const closed = new Promise<void>(resolve => channel.once('close', resolve))
  await orNothing(Promise.race([channel.close(), closed]))
}

/** Waits for an answer for a limited time, and ignores failures. */
export async function orNothing(answer: Promise<unknown>): Promise<void> {
  await within(answer, CLOSE_MS, () => new Error('No answer came.')).catch(() => {})
}

/** Returns the connection's socket, which the driver keeps but does not declare. */
function socketOf({ connection }: ChannelModel): Socket | undefined {
  const stream: unknown = Reflect.get(connection, 'stream')
  return stream instanceof Socket ? stream : undefined
}
