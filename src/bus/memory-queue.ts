import type { Consumer, DeliveryHandler, Message } from './bus.js'
import { OpenDeliveries } from './open-deliveries.js'

interface Entry {
  readonly message: Message
  readonly identity: string | undefined
  isRedelivered: boolean
}

/** A queue in memory, and its consumers, who take turns. */
export class MemoryQueue {
  readonly #waiting = new Line<Entry>()
  readonly #consumers: MemoryConsumer[] = []
  #isScheduled = false

  constructor(readonly type: string) {}

  get size(): number {
    return this.#waiting.length
  }

  get isConsumed(): boolean {
    return this.#consumers.length > 0
  }

  /** The waiting messages, oldest first. */
  get waiting(): readonly Entry[] {
    return this.#waiting.all()
  }

  /** Adds a message, unless one with the same identity is waiting. */
  add(message: Message, identity?: string): void {
    if (identity !== undefined && this.waiting.some(entry => entry.identity === identity)) return
    this.#waiting.push({ message, identity, isRedelivered: false })
    this.#schedule()
  }

  remove(entry: Entry): void {
    this.#waiting.remove(entry)
  }

  consume(handle: DeliveryHandler, prefetch: number): Consumer {
    const deliveries = new OpenDeliveries(handle, () => this.#schedule())
    const consumer = new MemoryConsumer(deliveries, prefetch, () => {
      const index = this.#consumers.indexOf(consumer)
      if (index >= 0) this.#consumers.splice(index, 1)
    })
    this.#consumers.push(consumer)
    this.#schedule()
    return consumer
  }

  close(): void {
    for (const consumer of this.#consumers.splice(0)) consumer.deliveries.giveBackAll()
  }

  /** Delivers in a later turn of the event loop, so that no handler runs inside its caller's own call. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#deliver()
    })
  }

  /**
   * Delivers at most as many messages as wait at the start. A message that is given back meanwhile comes in the next
   * turn, so that it cannot starve the others.
   */
  #deliver(): void {
    for (let left = this.#waiting.length; left > 0; left--) {
      const index = this.#consumers.findIndex(({ deliveries, prefetch }) => deliveries.size < prefetch)
      const [consumer] = index < 0 ? [] : this.#consumers.splice(index, 1)
      const entry = consumer && this.#waiting.shift()
      if (entry === undefined || consumer === undefined) return
      this.#consumers.push(consumer)
      // Copy it, so that a handler's changes do not show in a redelivery or in another queue.
      const message = { ...entry.message, body: entry.message.body.slice() }
      consumer.deliveries.hand(message, entry.isRedelivered, {
        ack: () => {},
        giveBack: () => {
          entry.isRedelivered = true
          this.#waiting.unshift(entry)
          this.#schedule()
        },
      })
    }
  }
}

class MemoryConsumer implements Consumer {
  constructor(
    readonly deliveries: OpenDeliveries,
    readonly prefetch: number,
    readonly leave: () => void,
  ) {}

  async stop(): Promise<void> {
    this.leave()
    await this.deliveries.settled()
  }
}

/** A queue with a cheap `shift`. On a long array, `Array.shift` moves all other items, which adds up to seconds. */
class Line<T> {
  #items: (T | undefined)[] = []
  /** The index of the first item. Everything before it has been taken. */
  #start = 0

  get length(): number {
    return this.#items.length - this.#start
  }

  all(): T[] {
    return this.#items.slice(this.#start) as T[]
  }

  push(item: T): void {
    this.#items.push(item)
  }

  unshift(item: T): void {
    if (this.#start > 0) this.#items[--this.#start] = item
    else this.#items.unshift(item)
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined
    const item = this.#items[this.#start]
    this.#items[this.#start++] = undefined
    if (this.#start > 1000 && this.#start > this.length) {
      this.#items = this.all()
      this.#start = 0
    }
    return item
  }

  remove(item: T): void {
    const index = this.#items.indexOf(item, this.#start)
    if (index >= 0) this.#items.splice(index, 1)
  }
}
