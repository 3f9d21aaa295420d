import type { StoreContract } from '../../store/internal.js'
import type { Clock } from '../../time/index.js'
import type { Duty } from '../duties.js'
import { DutyWarnings } from '../duty-warnings.js'
import type { WorkKind } from '../work-kind.js'
import { driveOperation } from './drive-operation.js'
import { type PayloadChecks, payloadChecks } from './next-payload.js'
import type { OutsideTarget } from './outside-work.js'

/** How many operations a worker drives at once. */
const MAX_DRIVEN = 8
/** The size of a page of the list of operations. */
const PAGE = 100

/** Advances the operations of a store that nobody else drives, so that no terminal has to stay open for them. */
export class OperationDuty implements Duty {
  readonly #store: StoreContract
  readonly #worker: string
  readonly #clock: Clock
  readonly #warnings = new DutyWarnings()
  readonly #checks: PayloadChecks
  readonly #outside: OutsideTarget | undefined
  readonly #abort = new AbortController()
  readonly #driven = new Map<string, Promise<unknown>>()
  /** Operations that wait for their turn. */
  readonly #waiting = new Set<string>()
  #looking: Promise<void> | undefined

  /** `outside` reaches members outside of the store, such as messages on the bus of a consumer. */
  constructor(store: StoreContract, worker: string, kinds: readonly WorkKind[], clock: Clock, outside?: OutsideTarget) {
    this.#outside = outside
    this.#store = store
    this.#worker = worker
    this.#clock = clock
    this.#checks = payloadChecks(kinds)
  }

  beat(): void {
    if (this.#abort.signal.aborted) return
    const what = 'look for operations'
    this.#looking ??= this.#look()
      .then(
        () => this.#warnings.succeeded(what),
        // The store is asked again with the next heartbeat.
        failure => this.#warnings.failed(what, failure),
      )
      .finally(() => {
        this.#looking = undefined
      })
  }

  async stop(): Promise<void> {
    this.#abort.abort()
    await this.#looking
    await Promise.all(this.#driven.values())
  }

  /** Gives every open operation its turn: newer ones that wait for their members must not keep the others from theirs. */
  async #look(): Promise<void> {
    let after: string | undefined
    do {
      const { items, next } = await this.#store.operations.list({ isOpen: true }, { limit: PAGE, after })
      const now = items.length === 0 ? 0 : await this.#store.now()
      const free = items.filter(({ driver }) => driver === undefined || driver.until <= now)
      for (const { id } of free) if (!this.#driven.has(id)) this.#waiting.add(id)
      this.#driveNext()
      after = next
    } while (after !== undefined)
  }

  #driveNext(): void {
    for (const id of this.#waiting) {
      if (this.#driven.size >= MAX_DRIVEN || this.#abort.signal.aborted) return
      this.#waiting.delete(id)
      this.#drive(id)
    }
  }

  #drive(id: string): void {
    let hasGivenWay = false
    const giveWay = () => {
      hasGivenWay = this.#waiting.size > 0
      return hasGivenWay
    }
    const known = { checks: this.#checks, outside: this.#outside, giveWay }
    const options = { driver: this.#worker, signal: this.#abort.signal, clock: this.#clock, ...known }
    const what = `advance the operation '${id}'`
    const driving = driveOperation(this.#store, id, options)
      .then(
        () => this.#warnings.succeeded(what),
        // Its lease runs out, and whoever is alive goes on.
        failure => this.#warnings.failed(what, failure),
      )
      .finally(() => {
        this.#driven.delete(id)
        if (hasGivenWay) this.#waiting.add(id)
        this.#driveNext()
      })
    this.#driven.set(id, driving)
  }
}
