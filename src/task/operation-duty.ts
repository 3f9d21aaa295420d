import { driveOperation } from '../operation/internal.js'
import type { Store } from '../store/index.js'
import type { Clock } from '../time/index.js'
import type { Duty } from './duties.js'

/** How many operations a worker drives at once. */
const MAX_DRIVEN = 8

/** Advances the operations of a store that nobody else drives, so that no terminal has to stay open for them. */
export class OperationDuty implements Duty {
  readonly #store: Store
  readonly #worker: string
  readonly #clock: Clock
  readonly #abort = new AbortController()
  readonly #driven = new Map<string, Promise<unknown>>()
  #looking: Promise<void> | undefined

  constructor(store: Store, worker: string, clock: Clock) {
    this.#store = store
    this.#worker = worker
    this.#clock = clock
  }

  beat(): void {
    if (this.#abort.signal.aborted) return
    this.#looking ??= this.#look()
      // A store that is away is asked again with the next heartbeat.
      .catch(() => {})
      .finally(() => {
        this.#looking = undefined
      })
  }

  async stop(): Promise<void> {
    this.#abort.abort()
    await this.#looking
    await Promise.all(this.#driven.values())
  }

  async #look(): Promise<void> {
    const { items } = await this.#store.operations.list({ isOpen: true }, { limit: 100 })
    if (items.length === 0) return
    const now = await this.#store.now()
    for (const { id, driver } of items) {
      const isFree = driver === undefined || driver.until <= now
      if (isFree && !this.#driven.has(id) && this.#driven.size < MAX_DRIVEN) this.#drive(id)
    }
  }

  #drive(id: string): void {
    const options = { driver: this.#worker, signal: this.#abort.signal, clock: this.#clock }
    const driving = driveOperation(this.#store, id, options)
      // Its lease runs out, and whoever is alive goes on.
      .catch(() => {})
      .finally(() => this.#driven.delete(id))
    this.#driven.set(id, driving)
  }
}
