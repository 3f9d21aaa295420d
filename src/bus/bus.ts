/**
 * What carries events
 *
 *   publish ──► type ──► queue ──consume──► delivery ──ack──► gone
 *                          ▲                   │
 *                          └──── give back ────┘
 *
 *   put ──► failed queue ──browse──► message ──remove──► gone
 *
 * - **A queue takes the events of one type**, all of them, and shares them out among its consumers. Several queues may
 *   take the same type: each gets its own copy.
 * - **A publish is confirmed.** It resolves once every queue that takes the type has the event on record. An event that no
 *   queue takes is a failed publish.
 * - **A delivery belongs to its consumer until it is settled**: acknowledged, or given back. What a consumer that died,
 *   or lost its connection, had not settled is delivered again, so that every event is delivered at least once.
 * - **A failed queue** `<queue>.failed` comes with every queue. It keeps its order, whoever looks at it.
 * - **A bus does not delay.** What is given back comes again at once. Waiting is the business of whoever consumes.
 * - **A broker that is away for a while** is waited for: consumers go on by themselves once it is back, and a publish
 *   waits for it as long as its timeout allows.
 */

/** An event as it is carried. */
export interface Message {
  /** The publisher's. `undefined` only if somebody else than Redrive published it, without one. */
  readonly id: string | undefined
  /** What it tells of, such as `json.parsed`. It decides which queues take it. */
  readonly type: string
  readonly body: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/** An event to be published. */
export interface NewMessage {
  /** The same each time it is published again: consumers know by it what they have seen. */
  readonly id: string
  /** What it tells of. It decides which queues take it. */
  readonly type: string
  /** JSON text, as a rule: `consume` of `redrive/event` takes nothing else. */
  readonly body: string | Uint8Array
  readonly headers?: Readonly<Record<string, string>>
}

/** Each queue, and the type of the events that it takes. Its failed queue comes with it. */
export type Topology = Readonly<Record<string, string>>

/** An event that is a consumer's until it is settled. Settling it twice, or after its connection was lost, does nothing. */
export interface Delivery extends Message {
  /** It may have been delivered before. */
  readonly isRedelivered: boolean
  /** It has been dealt with: the queue forgets it. */
  ack(): void
  /** It has not: the queue delivers it again, at once, to whichever consumer has room. */
  giveBack(): void
}

/** What is called with each delivery, and sees to it that it is settled. If it fails, the delivery is given back. */
export type DeliveryHandler = (delivery: Delivery) => void | Promise<void>

/** Options of `bus.consume`. */
export interface DeliveryOptions {
  /** The maximum number of deliveries in hand that are not settled yet. Default 100. */
  readonly prefetch?: number
}

/** Options of `put`. */
export interface PutOptions {
  /** Messages with the same identity are one: a broker that can tell (NATS, memory) keeps the first. */
  readonly identity?: string
}

/** What takes the deliveries of a queue, until it is stopped. */
export interface Consumer {
  /** Takes no more deliveries, and resolves once all that it has are settled. */
  stop(): Promise<void>
}

/** A message in a failed queue. It stays where it is until it is removed. */
export interface FailedMessage extends Message {
  remove(): Promise<void>
}

/** Where a queue stands. */
export interface QueueStatus {
  readonly name: string
  /** The type of the events that it takes; of a failed queue, the type that its queue takes. */
  readonly type: string
  readonly isFailedQueue: boolean
  /** How many messages wait in it. `undefined`: there is no such queue. */
  readonly messages: number | undefined
}

/** A queue that the broker tells of. */
export interface FoundQueue {
  readonly name: string
  /** The type of the events that it takes; a failed queue takes none. */
  readonly type: string | undefined
}

/** Something about the broker that can lose a message, or keep one from its consumer. */
export interface Finding {
  readonly code: FindingCode
  /** `error`: it will happen in ordinary operation. `warning`: it may, or it could not be seen. */
  readonly severity: 'error' | 'warning'
  /** The queue, or the part of the broker, that it is about. */
  readonly subject: string
  /** What it is, and what to do. */
  readonly message: string
}

/** What a finding is about. */
export type FindingCode =
  /** It is not there. */
  | 'missing'
  /** It is there, and is not of the kind that Redrive declares. */
  | 'mismatch'
  /** The broker drops a message after so many deliveries. */
  | 'delivery_limit'
  /** The broker drops messages, or refuses them, once there are so many. */
  | 'length_limit'
  /** The broker drops messages that are too old. */
  | 'expiry'
  /** A restart of the broker loses everything. */
  | 'memory_only'
  /** The broker confirms before the disk has it. */
  | 'sync_interval'
  /** What is there could not be seen in full. */
  | 'unseen'

/** Carries events from those who publish to those who consume. */
export interface Bus {
  /** Makes what is missing, durably. What is there already stays as it is; if it is of another kind, this rejects. */
  declare(topology: Topology): Promise<void>
  /** Which queues there are, failed queues among them. `undefined`: the broker does not tell. */
  discover(): Promise<FoundQueue[] | undefined>
  /** Where the queues stand: each queue, then its failed queue. */
  status(topology: Topology): Promise<QueueStatus[]>
  /** What about the broker could lose a message. */
  examine(topology: Topology): Promise<Finding[]>

  /** Publishes an event to the queues that take its type. Resolves once they have it on record. */
  publish(message: NewMessage): Promise<void>
  /** Puts a message into one queue: a failed queue, or the queue that takes its type. Resolves once it is on record. */
  put(queue: string, message: NewMessage, options?: PutOptions): Promise<void>
  /** Takes the deliveries of a queue. Resolves once it does. */
  consume(queue: string, handle: DeliveryHandler, options?: DeliveryOptions): Promise<Consumer>
  /**
   * Goes through the messages that are in a failed queue now, oldest first, each once. What is not removed on the way
   * stays, in its place.
   */
  browse(failedQueue: string, options?: { readonly limit?: number }): AsyncIterable<FailedMessage>

  /** Gives back what consumers have not settled, and disconnects. Publishes under way are waited for. */
  close(): Promise<void>
}

/** The name of the failed queue that comes with a queue. */
export function failedQueueOf(queue: string): string {
  return `${queue}.failed`
}

/** Whether a name is that of a failed queue. */
export function isFailedQueue(name: string): boolean {
  return name.endsWith('.failed')
}
