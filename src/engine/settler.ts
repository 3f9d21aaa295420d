import { isRefusal, type Outages, persist, UNTIL_ANSWERED } from '../attempt/index.js'
import { quoted } from '../policy/internal.js'

import { SETTLED, type Settled, type Settlement, type StoreContract } from '../store/internal.js'
import { failureText } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import { warnLocked } from './warn-locked.js'

/** The callbacks of a settler. */
export interface SettlerListener {
  /** The answer to a settlement, which was sent at this time on the monotonic clock. */
  onAnswer(settlement: Settlement, answer: Settled, sentAt: number): void
  /** A settlement was set aside, since another transaction holds its task. Its answer comes later, or never. */
  onLocked(settlement: Settlement): void
  /** A batch is on record, and everything in it was answered. */
  onSettled(): void
}

/**
 * Collects settlements and writes them in batches. It never gives up: what has been done must be on record. A task that
 * another transaction holds, such as that of a handler that hangs, is set aside and asked for by itself until the end.
 */
export class Settler {
  /** How many settlements came too late: another worker had the task by then. */
  stale = 0
  /** How many settlements are not on record yet. */
  unsettled = 0
  readonly #store: Pick<StoreContract, 'settle'>
  readonly #clock: Clock
  readonly #outages: Outages
  readonly #listener: SettlerListener
  #waiting: Settlement[] = []
  #flushing: Promise<void> | undefined
  /** Settlements of tasks that others have locked. */
  readonly #aside = new Set<Promise<void>>()
  readonly #ending = new AbortController()

  constructor(store: Pick<StoreContract, 'settle'>, clock: Clock, outages: Outages, listener: SettlerListener) {
    this.#store = store
    this.#clock = clock
    this.#outages = outages
    this.#listener = listener
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

  /** Writes everything. Those of locked tasks are asked for one last time: their leases run out, and others decide. */
  async end(): Promise<void> {
    try {
      await this.flush()
    } finally {
      this.#ending.abort()
      await Promise.all(this.#aside)
    }
  }

  async #settleAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      await this.#settle(batch).catch(() => this.#settleEach(batch))
      this.unsettled -= batch.length
      this.#listener.onSettled()
      // Attempts that end in the same turn of the event loop are settled in the same batch.
      if (this.#waiting.length > 0) await new Promise(resolve => setImmediate(resolve))
    }
  }

  /** The store refused the batch. One settlement that it can never take must not hold up the others. */
  async #settleEach(batch: readonly Settlement[]): Promise<void> {
    for (const [done, settlement] of batch.entries()) {
      try {
        await this.#settle([settlement]).catch(failure => this.#bury(settlement, failure))
      } catch (failure) {
        // The store takes nothing at all. Keep the rest, so that the next flush rejects too.
        this.#waiting.unshift(...batch.slice(done))
        throw failure
      }
    }
  }

  /** Records a dead letter in place of a settlement that the store cannot take. */
  async #bury(settlement: Settlement, failure: unknown): Promise<void> {
    await this.#settle([refused(settlement, failure)])
    this.#listener.onAnswer(settlement, SETTLED, this.#clock.monotonic())
  }

  async #settle(batch: readonly Settlement[]): Promise<void> {
    const options = { clock: this.#clock, outages: this.#outages }
    let sentAt = 0
    const ask = () => {
      sentAt = this.#clock.monotonic()
      return this.#store.settle(batch)
    }
    const answers = await persist(ask, UNTIL_ANSWERED, options)
    for (let n = 0; n < answers.length; n++) this.#answered(batch[n], answers[n], sentAt)
  }

  #answered(settlement: Settlement | undefined, answer: Settled | undefined, sentAt: number): void {
    if (settlement === undefined || answer === undefined) return
    if (answer.result === 'locked') return this.#setAside(settlement, answer.failure)
    if (answer.result === 'stale') this.stale++
    this.#listener.onAnswer(settlement, answer, sentAt)
  }

  #setAside(settlement: Settlement, failure: Error): void {
    this.#listener.onLocked(settlement)
    const asked = this.#settleAside(settlement, failure).finally(() => this.#aside.delete(asked))
    this.#aside.add(asked)
  }

  async #settleAside(settlement: Settlement, failure: Error): Promise<void> {
    warnLocked(`The outcome of the task ${quoted(settlement.id)} cannot be recorded yet; still trying.`, failure)
    let sentAt = 0
    const ask = async () => {
      sentAt = this.#clock.monotonic()
      const [answer] = await this.#store.settle([settlement])
      if (answer?.result === 'locked') throw answer.failure
      return answer
    }
    try {
      const options = { clock: this.#clock, signal: this.#ending.signal }
      this.#answered(settlement, await persist(ask, UNTIL_ANSWERED, options), sentAt)
      this.#listener.onSettled()
    } catch (failure) {
      if (isRefusal(failure, this.#clock)) await this.#bury(settlement, failure).catch(() => {})
      else
        warnLocked(
          `The outcome of the task ${quoted(settlement.id)} is not on record: its attempt counts as lost.`,
          failure,
        )
    }
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
