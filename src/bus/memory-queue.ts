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

  /** What waits now, oldest first. */
  get waiting(): readonly Entry[] {
    return this.#waiting.all()
  }

  /** Adds a message, unless one with the same identity waits. */
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

  /** Delivers in a turn of its own: nobody is called back from within a call of theirs. */
  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#deliver()
    })
  }

  /** No more than waits now: what is given back meanwhile comes in the next turn, so that others get theirs. */
  #deliver(): void {
    for (let left = this.#waiting.length; left > 0; left--) {
      const index = this.#consumers.findIndex(({ deliveries, prefetch }) => deliveries.size < prefetch)
      const [consumer] = index < 0 ? [] : this.#consumers.splice(index, 1)
      const entry = consumer && this.#waiting.shift()
      if (entry === undefined || consumer === undefined) return
      this.#consumers.push(consumer)
      // A copy: what a handler does to it is not delivered to the next.
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

/** A list whose front is cheap to take: an array moves all the rest for it, which takes seconds once it is long. */
class Line<T> {
  #items: (T | undefined)[] = []
  /** Where it begins: what was before has been taken. */
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
