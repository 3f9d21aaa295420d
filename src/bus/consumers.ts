import type { Consumer } from './bus.js'

/** One that its bus can end. */
export interface ClosableConsumer extends Consumer {
  /** Does not wait for what is not settled: it goes back. */
  close(): Promise<void>
}

/** The consumers of a bus, until they are stopped, or until it is closed. */
export class Consumers {
  readonly #open = new Set<ClosableConsumer>()

  /** Returns what its user gets. */
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
