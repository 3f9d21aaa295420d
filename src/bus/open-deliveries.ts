import type { Delivery, DeliveryHandler, Message } from './bus.js'
import { InHand } from './in-hand.js'

/** Settles one delivery with the broker. */
export interface Acknowledger {
  ack(): void
  giveBack(): void
  /** Extends the delivery's acknowledgement deadline, on brokers that have one. */
  keep?(): void
}

/** The unsettled deliveries of one consumer. */
export class OpenDeliveries {
  readonly #open = new InHand<Acknowledger>()
  readonly #handle: DeliveryHandler
  readonly #onSettled: () => void
  readonly #waiting: (() => void)[] = []

  constructor(handle: DeliveryHandler, onSettled: () => void = () => {}) {
    this.#handle = handle
    this.#onSettled = onSettled
  }

  get size(): number {
    return this.#open.size
  }

  /** Passes a message to the handler, and settles it with the broker exactly once. */
  hand(message: Message, isRedelivered: boolean, broker: Acknowledger): void {
    const place = this.#open.take(broker)
    const { id, type, body, headers, unreadable } = message
    const delivery: Delivery = {
      id,
      type,
      body,
      headers,
      unreadable,
      isRedelivered,
      ack: () => this.#settle(place, broker, 'ack'),
      giveBack: () => this.#settle(place, broker, 'giveBack'),
    }
    // Call the handler at once, so that deliveries start in order.
    try {
      const handling = this.#handle(delivery)
      // Await any thenable, such as those of query builders.
      if (handling !== undefined) Promise.resolve(handling).catch(() => delivery.giveBack())
    } catch {
      delivery.giveBack()
    }
  }

  /** Resolves once all deliveries are settled. */
  async settled(): Promise<void> {
    if (this.#open.size > 0) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** Extends the acknowledgement deadline of all deliveries. */
  keep(): void {
    for (const broker of this.#open) tell(broker, 'keep')
  }

  giveBackAll(): void {
    for (const broker of this.#open.dropAll()) tell(broker, 'giveBack')
    this.#onSettled()
    this.#wake()
  }

  /** Forgets all deliveries once their connection is lost: the broker delivers them again. */
  abandon(): void {
    this.#open.dropAll()
    this.#wake()
  }

  #settle(place: number, broker: Acknowledger, how: 'ack' | 'giveBack'): void {
    if (!this.#open.drop(place, broker)) return
    tell(broker, how)
    this.#onSettled()
    this.#wake()
  }

  #wake(): void {
    if (this.#open.size > 0) return
    for (const wake of this.#waiting.splice(0)) wake()
  }
}

/** Settles a delivery, ignoring a connection that is going down: the broker then delivers the message again. */
function tell(broker: Acknowledger, how: keyof Acknowledger): void {
  try {
    broker[how]?.()
  } catch {
    // The connection is gone, and the broker redelivers.
  }
}
