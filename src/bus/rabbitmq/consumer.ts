import type { Channel, ConsumeMessage } from 'amqplib'
import { persist } from '../../attempt/index.js'
import type { DeliveryHandler, DeliveryOptions } from '../bus.js'
import type { ClosableConsumer } from '../consumers.js'
import { BusClosedError, BusUnavailableError, NoQueueError } from '../errors.js'
import { OpenDeliveries } from '../open-deliveries.js'
import { UNTIL_BACK } from '../reconnect.js'
import type { OnTrouble } from '../trouble.js'
import { closeChannel, orNothing, type RabbitmqConnection } from './connection.js'
import { closeReason, NOT_FOUND } from './driver.js'
import { fromRabbitmq } from './message.js'

/** The parts of a consumer. */
export interface RabbitmqConsumerOptions {
  readonly connection: RabbitmqConnection
  readonly queue: string
  readonly handle: DeliveryHandler
  readonly prefetch: number
  readonly timeoutMs: number
  readonly onTrouble: OnTrouble
  readonly onOutage: NonNullable<DeliveryOptions['onOutage']>
}

/** Takes the deliveries of a queue on its own channel, and opens a new channel whenever that one is lost. */
export class RabbitmqConsumer implements ClosableConsumer {
  readonly #options: RabbitmqConsumerOptions
  readonly #deliveries: OpenDeliveries
  #attached: { readonly channel: Channel; readonly tag: string } | undefined
  #isStopped = false

  constructor(options: RabbitmqConsumerOptions) {
    this.#options = options
    this.#deliveries = new OpenDeliveries(options.handle)
  }

  /** Resolves once deliveries may come. */
  async start(): Promise<void> {
    await this.#attach(this.#options.timeoutMs)
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    const attached = this.#attached
    // After the broker's answer nothing more arrives, and everything sent before is here. Anything later is given back.
    if (attached !== undefined) await orNothing(attached.channel.cancel(attached.tag))
    await this.#deliveries.settled()
    await this.#leave()
  }

  async close(): Promise<void> {
    this.#isStopped = true
    // The broker requeues unsettled deliveries when the channel closes.
    this.#deliveries.abandon()
    await this.#leave()
  }

  async #attach(timeoutMs?: number): Promise<void> {
    const { connection, queue, prefetch } = this.#options
    const channel = await connection.channel(timeoutMs)
    const closed = new Promise<void>(resolve => {
      channel.once('close', () => {
        this.#deliveries.abandon()
        resolve()
      })
    })
    try {
      await channel.prefetch(prefetch)
      const { consumerTag } = await channel.consume(queue, message => this.#receive(channel, message))
      this.#attached = { channel, tag: consumerTag }
    } catch (error) {
      await closeChannel(channel)
      throw closeReason(error).code === NOT_FOUND ? new NoQueueError(`There is no queue '${queue}'.`) : error
    }
    void closed.then(() => this.#resume())
    if (this.#isStopped) await this.#leave()
  }

  #receive(channel: Channel, message: ConsumeMessage | null): void {
    if (message === null) {
      // The queue was deleted. Attach again in case somebody declares it anew.
      void closeChannel(channel)
    } else if (this.#isStopped) {
      channel.nack(message, false, true)
    } else {
      this.#deliveries.hand(fromRabbitmq(message), message.fields.redelivered, {
        ack: () => channel.ack(message),
        giveBack: () => channel.nack(message, false, true),
      })
    }
  }

  /** Opens a new channel after one was lost with all its open deliveries, unless the consumer was stopped. */
  async #resume(): Promise<void> {
    this.#attached = undefined
    if (this.#isStopped) return
    const { connection, onOutage } = this.#options
    onOutage({ isOver: false, failure: new BusUnavailableError(connection.name) })
    await persist(async () => {
      try {
        if (!this.#isStopped) await this.#attach()
      } catch (trouble) {
        if (trouble instanceof BusClosedError) return
        this.#options.onTrouble(trouble instanceof Error ? trouble : new Error(String(trouble)))
        throw trouble
      }
    }, UNTIL_BACK)
    onOutage({ isOver: true })
  }

  async #leave(): Promise<void> {
    const attached = this.#attached
    this.#attached = undefined
    if (attached !== undefined) await closeChannel(attached.channel)
  }
}
