import {
  type Bus,
  type Consumer,
  type DeliveryHandler,
  type DeliveryOptions,
  type FailedMessage,
  type Finding,
  type FoundQueue,
  isFailedQueue,
  type NewMessage,
  type PutOptions,
  type QueueStatus,
  type Topology,
} from '../bus.js'
import { checkFailedQueue, checkMessage, checkName, checkPrefetch, checkTopology } from '../check.js'
import { Consumers } from '../consumers.js'
import { BusClosedError, NoQueueError } from '../errors.js'
import { withTrace } from '../message.js'
import type { TlsOptions } from '../tls-options.js'
import type { OnTrouble } from '../trouble.js'
import { browseStream } from './browse.js'
import type { NatsConnection } from './connection.js'
import { NatsConsumer } from './consumer.js'
import { examineTopology } from './doctor.js'
import { type NatsDriver, orMissing } from './driver.js'
import { NatsPublisher } from './publisher.js'
import { declareTopology, discoverQueues, findQueue, type NatsTopologyOptions, topologyStatus } from './topology.js'

/** The parts of a NATS bus. */
export interface NatsParts extends NatsTopologyOptions {
  readonly address: string
  readonly connection: NatsConnection
  readonly driver: NatsDriver
  readonly timeoutMs: number
  readonly monitorUrl: URL | undefined
  readonly tls: TlsOptions | undefined
  readonly onTrouble: OnTrouble
}

/** Carries events over NATS JetStream: a stream for each type, a durable consumer for each queue. */
export class NatsBus implements Bus {
  readonly address: string
  readonly #parts: NatsParts
  readonly #publisher: NatsPublisher
  readonly #consumers = new Consumers()
  #isClosed = false

  constructor(parts: NatsParts) {
    this.address = parts.address
    this.#parts = parts
    this.#publisher = new NatsPublisher(parts.connection, parts.driver, parts.timeoutMs)
  }

  async declare(topology: Topology): Promise<void> {
    checkTopology(topology)
    await this.#ask(({ manager }) => declareTopology(manager, this.#parts, topology))
  }

  discover(): Promise<FoundQueue[]> {
    return this.#ask(({ manager }) => discoverQueues(manager, this.#parts.names))
  }

  status(topology: Topology): Promise<QueueStatus[]> {
    return this.#ask(({ manager }) => topologyStatus(manager, this.#parts.names, topology))
  }

  examine(topology: Topology): Promise<Finding[]> {
    return this.#ask(() => examineTopology(this.#parts, topology))
  }

  async publish(message: NewMessage): Promise<void> {
    this.#checkOpen()
    checkMessage(message)
    const { names } = this.#parts
    const { type } = message
    const missing = `There is no queue for '${type}'.`
    const target = { stream: names.streamOf(type), subject: names.subjectOf(type), missing }
    await this.#publisher.publish(target, withTrace(message))
  }

  async put(queue: string, message: NewMessage, { identity }: PutOptions = {}): Promise<void> {
    this.#checkOpen()
    checkName('queue', queue)
    checkMessage(message)
    const { names } = this.#parts
    const missing = `There is no queue '${queue}' that takes '${message.type}'.`
    if (isFailedQueue(queue)) {
      const target = { stream: names.failedStreamOf(queue), subject: names.failedSubjectOf(queue), missing, queue }
      return this.#publisher.publish(target, message, identity)
    }
    const target = { stream: names.streamOf(message.type), subject: names.subjectOf(message.type), missing, queue }
    const find = ({ manager }: NatsConnection) => manager.consumers.info(target.stream, names.consumerOf(queue))
    const consumer = await orMissing(this.#ask(find))
    if (consumer === undefined) throw new NoQueueError(missing)
    await this.#publisher.publish(target, message)
  }

  async consume(queue: string, handle: DeliveryHandler, options: DeliveryOptions = {}): Promise<Consumer> {
    const { prefetch = 100, onOutage = () => {} } = options
    checkName('queue', queue)
    checkPrefetch(prefetch)
    const { names, driver, ackWaitMs } = this.#parts
    const { stream_name: stream, name, config } = await this.#ask(({ manager }) => findQueue(manager, names, queue))
    // A consumer created after the bus was closed would never be closed.
    this.#checkOpen()
    const consumer = new NatsConsumer({
      ...this.#parts,
      queue,
      type: names.typeOf(stream),
      stream,
      consumer: name,
      ackWaitMs: (config.ack_wait ?? ackWaitMs * 1e6) / 1e6,
      createInbox: () => driver.transport.createInbox(),
      createHeaders: () => driver.transport.headers(),
      handle,
      prefetch,
      onOutage,
    })
    return this.#consumers.add(consumer)
  }

  async *browse(failedQueue: string, { limit = Infinity } = {}): AsyncGenerator<FailedMessage> {
    checkFailedQueue(failedQueue)
    const { connection, driver, names } = this.#parts
    const stream = names.failedStreamOf(failedQueue)
    const info = await this.#ask(({ manager }) => orMissing(manager.streams.info(stream)))
    if (info === undefined) throw new NoQueueError(`There is no queue '${failedQueue}'.`)
    yield* browseStream(connection, driver, info, failedQueue, limit)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#consumers.close()
    await this.#publisher.idle()
    await this.#parts.connection.close()
  }

  /** Asks the server as soon as there is a connection. */
  async #ask<T>(question: (connection: NatsConnection) => Promise<T>): Promise<T> {
    this.#checkOpen()
    const { connection, timeoutMs } = this.#parts
    await connection.connected(timeoutMs)
    return connection.whileConnected(question(connection)).catch(error => {
      this.#checkOpen()
      throw error
    })
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new BusClosedError(this.#parts.connection.name)
  }
}
