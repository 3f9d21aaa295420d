import type {
  Bus,
  Consumer,
  DeliveryHandler,
  DeliveryOptions,
  FailedMessage,
  Finding,
  FoundQueue,
  NewMessage,
  QueueStatus,
  Topology,
} from '../bus.js'
import { checkFailedQueue, checkMessage, checkName, checkPrefetch, checkTopology } from '../check.js'
import { Consumers } from '../consumers.js'
import { BusClosedError } from '../errors.js'
import { withTrace } from '../message.js'
import type { OnTrouble } from '../trouble.js'
import { browseQueue } from './browse.js'
import type { RabbitmqConnection } from './connection.js'
import { RabbitmqConsumer } from './consumer.js'
import { examineTopology } from './doctor.js'
import type { Management } from './management.js'
import { RabbitmqPublisher } from './publisher.js'
import { declareTopology, topologyStatus } from './topology.js'

/** The parts of a RabbitMQ bus. */
export interface RabbitmqParts {
  readonly address: string
  readonly connection: RabbitmqConnection
  readonly exchange: string
  readonly timeoutMs: number
  readonly management: Management | undefined
  readonly onTrouble: OnTrouble
}

/** Carries events over RabbitMQ: one topic exchange, a quorum queue per queue, and a classic queue per failed queue. */
export class RabbitmqBus implements Bus {
  readonly address: string
  readonly #parts: RabbitmqParts
  readonly #publisher: RabbitmqPublisher
  readonly #consumers = new Consumers()
  #isClosed = false

  constructor(parts: RabbitmqParts) {
    this.address = parts.address
    this.#parts = parts
    this.#publisher = new RabbitmqPublisher(parts.connection, parts.timeoutMs)
  }

  async declare(topology: Topology): Promise<void> {
    checkTopology(topology)
    const { connection, exchange, timeoutMs } = this.#parts
    await connection.ask(timeoutMs, channel => declareTopology(channel, exchange, topology))
  }

  /** AMQP cannot list queues; the management API can. */
  async discover(): Promise<FoundQueue[] | undefined> {
    return this.#parts.management?.queues(this.#parts.exchange)
  }

  status(topology: Topology): Promise<QueueStatus[]> {
    const { connection, timeoutMs } = this.#parts
    return topologyStatus(connection, topology, timeoutMs)
  }

  examine(topology: Topology): Promise<Finding[]> {
    return examineTopology(this.#parts, topology)
  }

  async publish(message: NewMessage): Promise<void> {
    this.#checkOpen()
    checkMessage(message)
    await this.#publisher.publish({ exchange: this.#parts.exchange, key: message.type }, withTrace(message))
  }

  async put(queue: string, message: NewMessage): Promise<void> {
    this.#checkOpen()
    checkName('queue', queue)
    checkMessage(message)
    await this.#publisher.publish({ exchange: '', key: queue }, message)
  }

  async consume(queue: string, handle: DeliveryHandler, options: DeliveryOptions = {}): Promise<Consumer> {
    const { prefetch = 100, onOutage = () => {} } = options
    this.#checkOpen()
    checkName('queue', queue)
    checkPrefetch(prefetch)
    const consumer = new RabbitmqConsumer({ ...this.#parts, queue, handle, prefetch, onOutage })
    await consumer.start()
    if (this.#isClosed) {
      await consumer.close()
      this.#checkOpen()
    }
    return this.#consumers.add(consumer)
  }

  async *browse(failedQueue: string, { limit = Infinity } = {}): AsyncGenerator<FailedMessage> {
    checkFailedQueue(failedQueue)
    const { connection, timeoutMs } = this.#parts
    yield* browseQueue(connection, failedQueue, limit, timeoutMs)
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.#consumers.close()
    await this.#publisher.idle()
    await this.#parts.connection.close()
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new BusClosedError(this.#parts.connection.name)
  }
}
