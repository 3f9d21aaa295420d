import { Socket } from 'node:net'
import type { Channel, ChannelModel, ConfirmChannel, RecoveringChannelModel } from 'amqplib'
import { RedriveError } from '../../policy/index.js'
import { BusClosedError, BusUnavailableError } from '../errors.js'
import { reconnectDelayMs } from '../reconnect.js'
import type { OnTrouble } from '../trouble.js'
import { within } from '../within.js'
import { closeReason, loadDriver } from './driver.js'

/** How long the first connection may take, and how often a silent one is asked whether it is alive. */
const CONNECT_MS = 10_000
const HEARTBEAT_SECONDS = 10
/** How long who leaves waits for the broker's answer. None comes on a dead connection, nor while memory or disk run low. */
const CLOSE_MS = 5000

/** A connection to RabbitMQ that comes back by itself. Channels are for those who use them to bring back. */
export class RabbitmqConnection {
  #isClosed = false

  private constructor(
    /** As it is called in messages: without its password. */
    readonly name: string,
    private readonly model: RecoveringChannelModel,
    /** Ends the connection there is, or was last, without a word. */
    private readonly drop: () => void,
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
    let latest: ChannelModel | undefined
    // A connection that is lost may not know it yet: its socket would keep the process alive.
    const drop = () => latest && socketOf(latest)?.destroy(new BusUnavailableError(name))
    model.on('error', () => {}).on('disconnect', drop)
    model.on('connect', connected => {
      latest = connected
    })
    try {
      await model.waitForConnect()
    } catch (cause) {
      throw new BusUnavailableError(name, { cause })
    }
    model.on('disconnect', tell).on('connect-failed', tell)
    model.on('blocked', reason => tell(new Error(`It takes no publishes for now: ${reason}.`)))
    return new RabbitmqConnection(name, model, drop)
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
      await closeChannel(channel)
    }
  }

  /** A new channel on which publishes are confirmed, once there is a connection. */
  async confirmChannel(timeoutMs: number): Promise<ConfirmChannel> {
    return this.#make(() => this.model.createConfirmChannel(), timeoutMs)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await within(this.model.close(), CLOSE_MS, () => new BusUnavailableError(this.name)).catch(this.drop)
  }

  async #make<C extends Channel>(create: () => Promise<C>, timeoutMs: number): Promise<C> {
    if (this.#isClosed) throw new BusClosedError(this.name)
    const late = () => new BusUnavailableError(this.name)
    const created = create().then(channel => {
      // A channel that the broker closes says so to whoever waits on it; nobody else needs to hear it.
      channel.on('error', () => {})
      return channel
    })
    return within(created, timeoutMs, late).catch(cause => {
      // It comes all the same, once there is a connection, and is nobody's by then.
      created.then(closeChannel).catch(() => {})
      if (this.#isClosed) throw new BusClosedError(this.name)
      throw cause instanceof BusUnavailableError ? cause : new BusUnavailableError(this.name, { cause })
    })
  }
}

/** Closes a channel. The driver waits for the broker's answer, and for ever if the connection is lost before it comes. */
export async function closeChannel(channel: Channel): Promise<void> {
  const closed = new Promise<void>(resolve => channel.once('close', resolve))
  await orNothing(Promise.race([channel.close(), closed]))
}

/** Waits for an answer, and for none if it does not come soon. */
export async function orNothing(answer: Promise<unknown>): Promise<void> {
  await within(answer, CLOSE_MS, () => new Error('No answer came.')).catch(() => {})
}

/** The driver has it, and does not say so. */
function socketOf({ connection }: ChannelModel): Socket | undefined {
  const stream: unknown = Reflect.get(connection, 'stream')
  return stream instanceof Socket ? stream : undefined
}
