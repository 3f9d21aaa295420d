import type { Delivery, DeliveryHandler, Message } from './bus.js'
import { InHand } from './in-hand.js'

/** Tells the broker about one delivery. */
export interface Acknowledger {
  ack(): void
  giveBack(): void
  /** Says that the delivery is still being worked on, to brokers that ask. */
  keep?(): void
}

/** The deliveries of one consumer that are not settled yet. */
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

  /** Hands a message to the handler, and tells the broker once how it was settled. */
  hand(message: Message, isRedelivered: boolean, broker: Acknowledger): void {
    const place = this.#open.take(broker)
    const { id, type, body, headers } = message
    const delivery: Delivery = {
      id,
      type,
      body,
      headers,
      isRedelivered,
      ack: () => this.#settle(place, broker, 'ack'),
      giveBack: () => this.#settle(place, broker, 'giveBack'),
    }
    // Call the handler at once, so that deliveries start in order.
    try {
      const handling = this.#handle(delivery)
      // Foreign thenables count too, such as those of query builders.
      if (handling !== undefined) Promise.resolve(handling).catch(() => delivery.giveBack())
    } catch {
      delivery.giveBack()
    }
  }

  /** Resolves once all are settled. */
  async settled(): Promise<void> {
    if (this.#open.size > 0) await new Promise<void>(resolve => this.#waiting.push(resolve))
  }

  /** Tells the broker that all of them are still being worked on. */
  keep(): void {
    for (const broker of this.#open) tell(broker, 'keep')
  }

  giveBackAll(): void {
    for (const broker of this.#open.dropAll()) tell(broker, 'giveBack')
    this.#onSettled()
    this.#wake()
  }

  /** Forgets all deliveries after their connection is lost: the broker delivers them again. */
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

/** Ignores a connection that is going down: the broker then delivers the message again. */
function tell(broker: Acknowledger, how: keyof Acknowledger): void {
  try {
    broker[how]?.()
  } catch {
    // There is no connection left to tell.
  }
}
