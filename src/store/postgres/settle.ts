import type { Outcome, Settled, Settlement } from '../store.js'
import { Batcher } from './batcher.js'
import { type Database, isOutage } from './database.js'
import type { Ends } from './ends.js'
import type { Holdings } from './holdings.js'
import { type SettleAnswer, SettlementBatch } from './settlement-batch.js'
import type { Signals } from './signals.js'

/** Settles tasks. Concurrent calls share a transaction. */
export class Settlements {
  readonly #database: Database
  readonly #signals: Signals
  readonly #ends: Ends
  readonly #holdings: Holdings
  readonly #batcher = new Batcher<Settlement, Settled>(batch => this.#send(batch), isOutage)

  constructor(database: Database, signals: Signals, ends: Ends, holdings: Holdings) {
    this.#database = database
    this.#signals = signals
    this.#ends = ends
    this.#holdings = holdings
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    if (settlements.length === 0) return []
    const settled = await this.#batcher.add(settlements)
    this.#holdings.settled(settlements, settled)
    this.#ends.ended(settlements)
    return settled
  }

  /** Resolves when all settlements under way have ended. */
  idle(): Promise<void> {
    return this.#batcher.idle()
  }

  async #send(settlements: readonly Settlement[]): Promise<Settled[]> {
    const { settled, isAnyBounded } = await this.#settled(settlements)
    const isAnyBack = settlements.some(({ outcome }, n) => isBack(outcome, settled[n]))
    if (isAnyBack || isAnyBounded) this.#signals.ring()
    return settled
  }

  /** Sends a batch in one statement or, where its order matters, in parts, within one transaction. */
  async #settled(settlements: readonly Settlement[]): Promise<Sent> {
    const parts = partsOf(settlements)
    const together = parts.length > 1 ? undefined : await this.#sendPart(settlements)
    return together ?? this.#database.callTogether(call => this.#sendInOrder(parts, call))
  }

  async #sendInOrder(parts: readonly (readonly Settlement[])[], call: Call): Promise<Sent> {
    const settled: Settled[] = []
    let isAnyBounded = false
    const add = (sent: Sent | undefined) => {
      settled.push(...(sent?.settled ?? []))
      isAnyBounded ||= sent?.isAnyBounded ?? false
    }
    for (const part of parts) {
      const together = await this.#sendPart(part, call)
      add(together)
      if (together === undefined) for (const settlement of part) add(await this.#sendPart([settlement], call))
    }
    return { settled, isAnyBounded }
  }

  /** Sends settlements in one statement. `undefined` if they have to come one by one: then nothing has changed. */
  async #sendPart(part: readonly Settlement[], call: Call = (...args) => this.#database.call(...args)) {
    const batch = new SettlementBatch(part)
    const answer = JSON.parse(String(await call('settle', [...batch.encode(), this.#database.at]))) as SettleAnswer
    return 'is_order_needed' in answer
      ? undefined
      : { settled: batch.decode(answer), isAnyBounded: answer.is_any_bounded }
  }
}

type Call = (fn: string, values: unknown[]) => Promise<unknown>

interface Sent {
  readonly settled: Settled[]
  /** There are lanes where the end of one task may let another start. */
  readonly isAnyBounded: boolean
}

/**
 * Cuts a batch with advances where its order matters: where a task goes back to its lane, or holds it, after an item has
 * advanced, which may have been kept in that lane; and where a task comes again. Within a part, advances are settled last.
 */
function partsOf(settlements: readonly Settlement[]): (readonly Settlement[])[] {
  if (!settlements.some(isAdvance)) return [settlements]
  const parts: Settlement[][] = []
  let part: Settlement[] = []
  let hasAdvances = false
  const ids = new Set<string>()
  for (const settlement of settlements) {
    if (ids.has(settlement.id) || (hasAdvances && isBackAtOnce(settlement))) {
      parts.push(part)
      part = []
      hasAdvances = false
      ids.clear()
    }
    part.push(settlement)
    ids.add(settlement.id)
    hasAdvances ||= isAdvance(settlement)
  }
  return [...parts, part]
}

function isAdvance({ outcome }: Settlement): boolean {
  return outcome.type === 'advanced'
}

function isBackAtOnce({ outcome }: Settlement): boolean {
  const { type } = outcome
  return type === 'released' || type === 'deferred' || ('delayMs' in outcome && outcome.delayMs <= 0)
}

/** Whether a task waits now for whoever claims it. */
function isBack(outcome: Outcome, settled: Settled | undefined): boolean {
  if (outcome.type === 'advanced') return settled?.result === 'settled'
  return 'delayMs' in outcome || outcome.type === 'released'
}
