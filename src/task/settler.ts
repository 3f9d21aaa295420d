import { type Outages, persist, UNTIL_ANSWERED } from '../attempt/index.js'
import type { Settlement, Store } from '../store/index.js'
import { failureText } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'

/** Collects settlements and writes them in batches. It never gives up: what has been done must be on record. */
export class Settler {
  /** How many settlements came too late: another worker had the task by then. */
  stale = 0
  /** How many settlements are not on record yet. */
  unsettled = 0
  readonly #store: Pick<Store, 'settle'>
  readonly #clock: Clock
  readonly #outages: Outages
  readonly #onSettled: () => void
  #waiting: Settlement[] = []
  #flushing: Promise<void> | undefined

  /** `onSettled` is called whenever a batch is on record. */
  constructor(store: Pick<Store, 'settle'>, clock: Clock, outages: Outages, onSettled: () => void) {
    this.#store = store
    this.#clock = clock
    this.#outages = outages
    this.#onSettled = onSettled
  }

  add(settlement: Settlement): void {
    this.#waiting.push(settlement)
    this.unsettled++
  }

  /** Resolves once everything added so far is on record. One batch is written at a time, so the order holds. */
  flush(): Promise<void> {
    this.#flushing ??= this.#settleAll().finally(() => {
      this.#flushing = undefined
    })
    return this.#flushing
  }

  async #settleAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      await this.#settle(batch).catch(() => this.#settleEach(batch))
      this.unsettled -= batch.length
      this.#onSettled()
      // Attempts that end in the same turn of the event loop are settled in the same batch.
      if (this.#waiting.length > 0) await new Promise(resolve => setImmediate(resolve))
    }
  }

  /** The store refused the batch. One settlement that it can never take must not hold up the others. */
  async #settleEach(batch: readonly Settlement[]): Promise<void> {
    for (const [done, settlement] of batch.entries()) {
      try {
        await this.#settle([settlement]).catch(failure => this.#settle([refused(settlement, failure)]))
      } catch (failure) {
        // The store takes nothing at all. Keep the rest, so that the next flush rejects too.
        this.#waiting.unshift(...batch.slice(done))
        throw failure
      }
    }
  }

  async #settle(batch: readonly Settlement[]): Promise<void> {
    const options = { clock: this.#clock, outages: this.#outages }
    const answers = await persist(() => this.#store.settle(batch), UNTIL_ANSWERED, options)
    for (const { result } of answers) if (result === 'stale') this.stale++
  }
}

/** Replaces a settlement that the store cannot take by a dead letter that says so. */
function refused({ id, token, attempt }: Settlement, failure: unknown): Settlement {
  const { attempt: number = 1, startedAt = 0, endedAt = 0, worker = '' } = attempt ?? {}
  const error = `The outcome of the task could not be stored. ${failureText(failure)}`
  const verdict = { class: 'final', code: 'settlement_refused' } as const
  const entry = { attempt: number, startedAt, endedAt, worker, verdict, error }
  return { id, token, outcome: { type: 'dead', reason: 'final_error' }, attempt: entry }
}
