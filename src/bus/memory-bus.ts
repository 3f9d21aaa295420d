import {
  type Bus,
  type Consumer,
  type DeliveryHandler,
  type DeliveryOptions,
  type FailedMessage,
  type Finding,
  type FoundQueue,
  failedQueueOf,
  isFailedQueue,
  type Message,
  type NewMessage,
  type PutOptions,
  type QueueStatus,
  type Topology,
} from './bus.js'
import { checkFailedQueue, checkMessage, checkPrefetch, checkTopology } from './check.js'
import { BusClosedError, MessageTooLargeError, NoQueueError, TopologyError } from './errors.js'
import { finding, unconsumed } from './finding.js'
import { MemoryQueue } from './memory-queue.js'
import { bytesOf, withTrace } from './message.js'

/** The options of a memory bus. @inline */
export interface MemoryBusOptions {
  /** The maximum size of a body. Default: no limit. */
  readonly maxBytes?: number | undefined
}

/** Carries events within this process, for tests and for events that need not outlive it. */
export class MemoryBus implements Bus {
  readonly address = `memory:${crypto.randomUUID()}`
  readonly #maxBytes: number
  readonly #queues = new Map<string, MemoryQueue>()
  #isClosed = false

  constructor({ maxBytes = Infinity }: MemoryBusOptions = {}) {
    this.#maxBytes = maxBytes
  }

  async declare(topology: Topology): Promise<void> {
    this.#checkOpen()
    checkTopology(topology)
    for (const [queue, type] of Object.entries(topology)) {
      const found = this.#queues.get(queue)
      if (found !== undefined && found.type !== type) throw new TopologyError(queue, `takes '${found.type}'`)
      for (const name of [queue, failedQueueOf(queue)]) {
        if (!this.#queues.has(name)) this.#queues.set(name, new MemoryQueue(type))
      }
    }
  }

  async discover(): Promise<FoundQueue[]> {
    this.#checkOpen()
    return [...this.#queues].map(([name, { type }]) => ({ name, type: isFailedQueue(name) ? undefined : type }))
  }

  async status(topology: Topology): Promise<QueueStatus[]> {
    this.#checkOpen()
    return Object.entries(topology).flatMap(([queue, type]) =>
      [queue, failedQueueOf(queue)].map(name => ({
        name,
        type,
        isFailedQueue: isFailedQueue(name),
        messages: this.#queues.get(name)?.size,
      })),
    )
  }

  async examine(topology: Topology): Promise<Finding[]> {
    const findings = (await this.status(topology)).flatMap(({ name, isFailedQueue, messages }) => {
      if (messages === undefined) return [finding('missing', name, `There is no queue '${name}'. Declare it.`)]
      const isIdle = !isFailedQueue && messages > 0 && !this.#queues.get(name)?.isConsumed
      return isIdle ? [unconsumed(name, messages)] : []
    })
    const message = 'Its messages are lost when this process ends. Use RabbitMQ or NATS where that matters.'
    return [...findings, finding('memory_only', 'the memory bus', message, 'warning')]
  }

  async publish(message: NewMessage): Promise<void> {
    const copy = this.#accept(withTrace(message))
    const takers = [...this.#queues].filter(([name, { type }]) => type === message.type && !isFailedQueue(name))
    if (takers.length === 0) throw new NoQueueError(`There is no queue for '${message.type}'.`)
    for (const [, queue] of takers) queue.add(copy)
  }

  async put(queue: string, message: NewMessage, { identity }: PutOptions = {}): Promise<void> {
    const copy = this.#accept(message)
    const found = this.#find(queue)
    if (!isFailedQueue(queue) && found.type !== message.type) {
      throw new NoQueueError(`The queue '${queue}' takes '${found.type}', not '${message.type}'.`)
    }
    found.add(copy, identity)
  }

  async consume(queue: string, handle: DeliveryHandler, { prefetch = 100 }: DeliveryOptions = {}): Promise<Consumer> {
    this.#checkOpen()
    checkPrefetch(prefetch)
    return this.#find(queue).consume(handle, prefetch)
  }

  async *browse(failedQueue: string, { limit = Infinity } = {}): AsyncGenerator<FailedMessage> {
    this.#checkOpen()
    checkFailedQueue(failedQueue)
    const queue = this.#find(failedQueue)
    for (const entry of queue.waiting.slice(0, limit)) {
      yield { ...entry.message, remove: async () => queue.remove(entry) }
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const queue of this.#queues.values()) queue.close()
  }

  #find(name: string): MemoryQueue {
    const queue = this.#queues.get(name)
    if (queue === undefined) throw new NoQueueError(`There is no queue '${name}'.`)
    return queue
  }

  /** Copies a message, so that later changes to the publisher's object do not reach the queues. */
  #accept(message: NewMessage): Message {
    this.#checkOpen()
    checkMessage(message)
    const { id, type, headers } = message
    const body = bytesOf(message)
    if (body.length > this.#maxBytes) throw new MessageTooLargeError(id, body.length, this.#maxBytes)
    return { id, type, body: body.slice(), headers: { ...headers } }
  }

  #checkOpen(): void {
    if (this.#isClosed) throw new BusClosedError('in memory')
  }
}
