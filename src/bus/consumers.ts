import type { Consumer } from './bus.js'

/** A consumer that its bus can close. */
export interface ClosableConsumer extends Consumer {
  /** Stops without waiting: unsettled deliveries go back to the queue. */
  close(): Promise<void>
}

/** The running consumers of a bus, to be closed with it. */
export class Consumers {
  readonly #open = new Set<ClosableConsumer>()

  /** Tracks a consumer until it is stopped. Returns the handle for the user. */
  add(consumer: ClosableConsumer): Consumer {
    this.#open.add(consumer)
    return {
      stop: async () => {
        await consumer.stop()
        this.#open.delete(consumer)
      },
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open].map(consumer => consumer.close()))
  }
}
