import type { Consumer, DeliveryHandler, Message } from './bus.js'
import { OpenDeliveries } from './open-deliveries.js'

interface Entry {
  readonly message: Message
  isRedelivered: boolean
}

/** A queue in memory, and its consumers, who take turns. */
export class MemoryQueue {
  readonly waiting: Entry[] = []
  readonly #consumers: MemoryConsumer[] = []
  #isScheduled = false

  constructor(readonly type: string) {}

  get size(): number {
    return this.waiting.length
  }

  add(message: Message): void {
    this.waiting.push({ message, isRedelivered: false })
    this.#schedule()
  }

  remove(entry: Entry): void {
    const index = this.waiting.indexOf(entry)
    if (index >= 0) this.waiting.splice(index, 1)
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
    for (let left = this.waiting.length; left > 0; left--) {
      const index = this.#consumers.findIndex(({ deliveries, prefetch }) => deliveries.size < prefetch)
      const [consumer] = index < 0 ? [] : this.#consumers.splice(index, 1)
      const entry = consumer && this.waiting.shift()
      if (entry === undefined || consumer === undefined) return
      this.#consumers.push(consumer)
      // A copy: what a handler does to it is not delivered to the next.
      const message = { ...entry.message, body: entry.message.body.slice() }
      consumer.deliveries.hand(message, entry.isRedelivered, {
        ack: () => {},
        giveBack: () => {
          entry.isRedelivered = true
          this.waiting.unshift(entry)
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
