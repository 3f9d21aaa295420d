import type { Delivery, DeliveryHandler, Message } from './bus.js'
import { InHand } from './in-hand.js'

/** How the broker is told of one delivery. */
export interface Settlement {
  ack(): void
  giveBack(): void
  /** It is still being worked on. Only for brokers that ask. */
  keep?(): void
}

/** The deliveries of one consumer that are not settled yet. */
export class OpenDeliveries {
  readonly #open = new InHand<Settlement>()
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

  /** Hands a message to the handler, and its settlement to the broker, once. */
  hand(message: Message, isRedelivered: boolean, settlement: Settlement): void {
    const place = this.#open.take(settlement)
    const { id, type, body, headers } = message
    const delivery: Delivery = {
      id,
      type,
      body,
      headers,
      isRedelivered,
      ack: () => this.#settle(place, settlement, 'ack'),
      giveBack: () => this.#settle(place, settlement, 'giveBack'),
    }
    // The handler is called at once, so that deliveries start in their order.
    try {
      const handling = this.#handle(delivery)
      // Promises of other makes count too: a query builder's, say.
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
    for (const settlement of this.#open) tell(settlement, 'keep')
  }

  giveBackAll(): void {
    for (const settlement of this.#open.dropAll()) tell(settlement, 'giveBack')
    this.#onSettled()
    this.#wake()
  }

  /** Their connection is gone: the broker delivers them again, and there is nobody to settle them with. */
  abandon(): void {
    this.#open.dropAll()
    this.#wake()
  }

  #settle(place: number, settlement: Settlement, how: 'ack' | 'giveBack'): void {
    if (!this.#open.drop(place, settlement)) return
    tell(settlement, how)
    this.#onSettled()
    this.#wake()
  }

  #wake(): void {
    if (this.#open.size > 0) return
    for (const wake of this.#waiting.splice(0)) wake()
  }
}

/** A connection that is on its way down takes no more: then the broker delivers it again. */
function tell(settlement: Settlement, how: keyof Settlement): void {
  try {
    settlement[how]?.()
  } catch {
    // Nobody is left to be told.
  }
}
