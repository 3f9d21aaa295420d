import type { Channel, ConfirmChannel, RecoveringChannelModel } from 'amqplib'
import { RedriveError } from '../../policy/index.js'
import { BusClosedError, BusUnavailableError } from '../errors.js'
import { reconnectDelayMs } from '../reconnect.js'
import type { OnTrouble } from '../trouble.js'
import { within } from '../within.js'
import { closeReason, loadDriver } from './driver.js'

/** How long the first connection may take, and how often a silent one is asked whether it is alive. */
const CONNECT_MS = 10_000
const HEARTBEAT_SECONDS = 10

/** A connection to RabbitMQ that comes back by itself. Channels are for those who use them to bring back. */
export class RabbitmqConnection {
  #isClosed = false

  private constructor(
    /** As it is called in messages: without its password. */
    readonly name: string,
    private readonly model: RecoveringChannelModel,
  ) {}

  /** Connects once: a broker that is not there at the start is most often a wrong url. */
  static async open(url: string, onTrouble: OnTrouble): Promise<RabbitmqConnection> {
    const driver = await loadDriver()
    const target = new URL(url)
    const name = `RabbitMQ at ${target.host}`
    if (!target.searchParams.has('heartbeat')) target.searchParams.set('heartbeat', String(HEARTBEAT_SECONDS))
    const recovery = { initialMaxRetries: 0, waitForConnect: false, calculateDelay: reconnectDelayMs }
    const model = await driver.connect(target.href, { timeout: CONNECT_MS, noDelay: true, recovery })
    const tell = (cause: Error) => onTrouble(new BusUnavailableError(name, { cause }))
    model.on('error', () => {})
    try {
      await model.waitForConnect()
    } catch (cause) {
      throw new BusUnavailableError(name, { cause })
    }
    model.on('disconnect', tell).on('connect-failed', tell)
    model.on('blocked', reason => tell(new Error(`It takes no publishes for now: ${reason}.`)))
    return new RabbitmqConnection(name, model)
  }

  /** A new channel, once there is a connection. */
  async channel(timeoutMs = Infinity): Promise<Channel> {
    return this.#make(() => this.model.createChannel(), timeoutMs)
  }

  /** Asks the broker something on a channel of its own, since a refusal closes the channel. */
  async ask<T>(timeoutMs: number, question: (channel: Channel) => Promise<T>): Promise<T> {
    const channel = await this.channel(timeoutMs)
    try {
      return await question(channel)
    } catch (cause) {
      // Without a reason of the broker's, it was the connection that closed it.
      const isAnswered = cause instanceof RedriveError || closeReason(cause).code !== 0
      throw isAnswered ? cause : new BusUnavailableError(this.name, { cause })
    } finally {
      await channel.close().catch(() => {})
    }
  }

  /** A new channel on which publishes are confirmed, once there is a connection. */
  async confirmChannel(timeoutMs: number): Promise<ConfirmChannel> {
    return this.#make(() => this.model.createConfirmChannel(), timeoutMs)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.model.close()
  }

  async #make<C extends Channel>(create: () => Promise<C>, timeoutMs: number): Promise<C> {
    if (this.#isClosed) throw new BusClosedError(this.name)
    const late = () => new BusUnavailableError(this.name)
    const channel = await within(create(), timeoutMs, late).catch(cause => {
      throw cause instanceof BusUnavailableError ? cause : new BusUnavailableError(this.name, { cause })
    })
    // A channel that the broker closes says so to whoever waits on it; nobody else needs to hear it.
    channel.on('error', () => {})
    return channel
  }
}
