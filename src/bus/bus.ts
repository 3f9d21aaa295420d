/**
 * A bus carries events from publishers to consumers.
 *
 *   publish ──► type ──► queue ──consume──► delivery ──ack──► gone
 *                          ▲                   │
 *                          └──── give back ────┘
 *
 *   put ──► failed queue ──browse──► message ──remove──► gone
 *
 * - **A queue takes all events of one type** and shares them out among its consumers. Several queues may take the same
 *   type: each gets its own copy.
 * - **A publish is confirmed.** It resolves once every queue that takes the type has the event on record. It fails if
 *   no queue takes the type.
 * - **A delivery belongs to its consumer until it is settled**: acknowledged or given back. If a consumer dies or loses
 *   its connection, its unsettled deliveries come again. So every event is delivered at least once.
 * - **Every queue comes with a failed queue**, `<queue>.failed`. Browsing it does not change its order.
 * - **A bus does not delay.** A message that is given back comes again at once; the consumer does any waiting.
 * - **An outage of the broker is bridged.** Consumers resume by themselves once it is back, and a publish waits for it
 *   until its timeout.
 */

import type { Outage } from '../attempt/index.js'

/** An event as a bus carries it. */
export interface Message {
  /**
   * The id that the publisher chose. `undefined` only if another program than Redrive published the event without one.
   */
  readonly id: string | undefined
  /** The type of the event, such as `json.parsed`. It decides which queues take it. */
  readonly type: string
  /** The body, as the publisher sent it. `textOf` reads it as text. */
  readonly body: Uint8Array
  /** The headers that it was published with. */
  readonly headers: Readonly<Record<string, string>>
  /**
   * Present if its headers could not be read, which only another program than Redrive can send. `headers` then holds
   * those that could, and `consume` of `redrive/event` makes it a dead letter.
   */
  readonly unreadable?: UnreadableHeaders | undefined
}

/** Headers that break the rules of the broker's protocol or of its client. */
export interface UnreadableHeaders {
  /** What is wrong with them. */
  readonly reason: string
  /** All of them as they came: text, or base64 where `encoding` says so. */
  readonly raw: string
  readonly encoding?: 'base64'
}

/** An event to publish. */
export interface NewMessage {
  /** Use the same id when you publish an event again: consumers deduplicate by it. */
  readonly id: string
  /** The type of the event. It decides which queues take it. */
  readonly type: string
  /** Usually JSON text: `consume` of `redrive/event` accepts nothing else. */
  readonly body: string | Uint8Array
  /** Text on one line each, up to 60 kB in all. Default: none. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Maps each queue to the type of events that it takes. Each queue comes with its failed queue. */
export type Topology = Readonly<Record<string, string>>

/**
 * An event in a consumer's hands. It belongs to that consumer until it is settled. Settling it twice, or after the
 * connection was lost, does nothing.
 */
export interface Delivery extends Message {
  /** True if the event may have been delivered before. */
  readonly isRedelivered: boolean
  /** Acknowledges the event: the queue forgets it. */
  ack(): void
  /** Returns the event unprocessed: the queue delivers it again at once, to any consumer that has room. */
  giveBack(): void
}

/** Handles one delivery and is responsible for settling it. If the handler fails, the delivery is given back. */
export type DeliveryHandler = (delivery: Delivery) => void | Promise<void>

/** Options of `bus.consume`. */
export interface DeliveryOptions {
  /** The maximum number of unsettled deliveries in flight. Default 100. */
  readonly prefetch?: number | undefined
  /** Called when no deliveries can come, because the connection is lost for example, and when they can come again. */
  readonly onOutage?: ((outage: Outage) => void) | undefined
}

/** Options of `put`. */
export interface PutOptions {
  /** Deduplicates: of several messages with the same identity, NATS and memory keep the first. RabbitMQ keeps all. */
  readonly identity?: string | undefined
}

/** Takes deliveries from a queue until it is stopped. */
export interface Consumer {
  /** Stops taking deliveries, and resolves once those in flight are settled. */
  stop(): Promise<void>
}

/** A message in a failed queue. It keeps its place until it is removed. */
export interface FailedMessage extends Message {
  /** Removes the message for good. */
  remove(): Promise<void>
}

/** The status of a queue. */
export interface QueueStatus {
  /** The name of the queue. */
  readonly name: string
  /** The type of events that the queue takes; for a failed queue, the type that its main queue takes. */
  readonly type: string
  /** Whether it is the failed queue of another one. */
  readonly isFailedQueue: boolean
  /** The number of waiting messages; `undefined` if the queue does not exist. */
  readonly messages: number | undefined
}

/** A queue that exists on the broker. */
export interface FoundQueue {
  /** The name of the queue. */
  readonly name: string
  /** The type of events that the queue takes; `undefined` for a failed queue. */
  readonly type: string | undefined
}

/** A problem in the broker's setup that can lose a message or keep it from its consumer. */
export interface Finding {
  /** A stable code for the problem. */
  readonly code: FindingCode
  /** `error`: it will lose messages in ordinary operation. `warning`: it might, or it could not be checked. */
  readonly severity: 'error' | 'warning'
  /** The queue or the part of the broker that has the problem. */
  readonly subject: string
  /** Describes the problem and how to fix it. */
  readonly message: string
}

/** The kind of problem that a finding reports. */
export type FindingCode =
  /** A queue does not exist, or does not get its events. */
  | 'missing'
  /** A queue exists, but with other properties than Redrive declares. */
  | 'mismatch'
  /** The broker drops a message after a maximum number of deliveries. */
  | 'delivery_limit'
  /** The broker drops or refuses messages once a queue is full. */
  | 'length_limit'
  /** The broker drops old messages, or an unused queue. */
  | 'expiry'
  /** A restart of the broker loses everything. */
  | 'memory_only'
  /** The broker confirms a message before it is on disk. */
  | 'sync_interval'
  /** Messages wait in a queue, and nothing consumes it. */
  | 'no_consumer'
  /** Part of the setup could not be checked. */
  | 'unseen'

/** Carries events from publishers to consumers. */
export interface Bus {
  /**
   * Where its queues are, without credentials, such as `amqp://host/vhost`. A requeue on record names it, so that nobody
   * continues it on another broker.
   */
  readonly address: string

  /**
   * Creates the queues that are missing, durably. Existing queues stay unchanged; rejects if one has other properties
   * than Redrive declares.
   */
  declare(topology: Topology): Promise<void>
  /** Lists the existing queues, including failed queues. Resolves with `undefined` if the broker cannot list them. */
  discover(): Promise<FoundQueue[] | undefined>
  /** Counts the messages of each queue, followed by its failed queue. */
  status(topology: Topology): Promise<QueueStatus[]>
  /** Checks the broker's setup for anything that could lose a message. */
  examine(topology: Topology): Promise<Finding[]>

  /** Publishes an event to all queues for its type. Resolves once they have stored it. */
  publish(message: NewMessage): Promise<void>
  /** Puts a message into one queue: a failed queue, or a queue for its type. Resolves once it is stored. */
  put(queue: string, message: NewMessage, options?: PutOptions): Promise<void>
  /** Starts a consumer. Resolves once it can receive deliveries. */
  consume(queue: string, handle: DeliveryHandler, options?: DeliveryOptions): Promise<Consumer>
  /**
   * Iterates over the messages that are in a failed queue now, oldest first, each once. Messages that are not removed
   * keep their places.
   */
  browse(failedQueue: string, options?: { readonly limit?: number }): AsyncIterable<FailedMessage>

  /** Gives back unsettled deliveries, waits for publishes in flight, and disconnects. */
  close(): Promise<void>
}

/** Returns the name of a queue's failed queue. */
export function failedQueueOf(queue: string): string {
  return `${queue}.failed`
}

/** Returns whether a name is that of a failed queue. */
export function isFailedQueue(name: string): boolean {
  return name.endsWith('.failed')
}
