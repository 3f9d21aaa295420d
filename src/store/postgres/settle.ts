import type { GateChange } from '../contract/budget-store.js'
import { type Outcome, type Settled, type Settlement, STALE } from '../contract/claim.js'
import { withGates } from '../rules/budgets/gate-answers.js'
import { tasksIfDead } from '../rules/if-dead.js'
import { Batcher } from './batcher.js'
import { type Database, isOutage } from './database.js'
import type { Ends } from './ends.js'
import type { Enqueues } from './enqueue.js'
import type { Holdings } from './holdings.js'
import type { LockedTasks } from './locked-tasks.js'
import type { RunBudgets } from './run-budgets.js'
import { type SettleAnswer, SettlementBatch } from './settlement-batch.js'
import type { Signals } from './signals.js'

/** Settles tasks. Concurrent calls share a transaction. */
export class Settlements {
  readonly #database: Database
  readonly #signals: Signals
  readonly #ends: Ends
  readonly #holdings: Holdings
  readonly #enqueues: Enqueues
  readonly #judge: Judge
  readonly #learn: () => Promise<void>
  readonly #runBudgets: RunBudgets
  #isPrepared = false
  readonly #locked: LockedTasks
  readonly #batcher = new Batcher<Settlement, Settled>(batch => this.#send(batch), isOutage)

  constructor(
    database: Database,
    signals: Signals,
    ends: Ends,
    holdings: Holdings,
    enqueues: Enqueues,
    judge: Judge,
    learn: () => Promise<void>,
    runBudgets: RunBudgets,
    locked: LockedTasks,
  ) {
    this.#database = database
    this.#signals = signals
    this.#ends = ends
    this.#holdings = holdings
    this.#enqueues = enqueues
    this.#judge = judge
    this.#learn = learn
    this.#runBudgets = runBudgets
    this.#locked = locked
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    if (settlements.length === 0) return []
    const settled = await this.#batcher.add(settlements)
    this.#holdings.settled(settlements, settled)
    this.#ends.ended(settlements)
    return settled
  }

  /** Lets a connection plan settlements ahead, once: the first one on a connection takes several times as long as the next. */
  prepare(): void {
    if (this.#isPrepared) return
    this.#isPrepared = true
    this.#database.call('plan_settlements', []).catch(() => {})
  }

  /** Resolves when all settlements under way have ended. */
  idle(): Promise<void> {
    return this.#batcher.idle()
  }

  async #send(settlements: readonly Settlement[]): Promise<Settled[]> {
    const { settled, now, isAnyBounded, isAnyBudget, isAnyGateOpen, isAnyRefusal } = await this.#locked.sendAround(
      settlements,
      (batch, locked) => this.#sendFree(batch, locked),
    )
    const isJudged = isAnyGateOpen || (isAnyBudget && settlements.some(({ attempt }) => attempt?.verdict !== undefined))
    // The settlements are on record by then, so a failure here is nobody's: the next ones judge and learn again.
    if (isAnyRefusal) await this.#learn().catch(() => {})
    const gates = isJudged ? await this.#judge(now).catch(() => []) : []
    const isAnyBack = settlements.some(({ outcome }, n) => isBack(outcome, settled[n]))
    if (isAnyBack || isFollowed(settlements) || isAnyBounded || isAnyGateOpen) this.#signals.ring()
    return withGates(await this.#runBudgets.withStops(settlements, settled), gates)
  }

  async #sendFree(settlements: readonly Settlement[], locked: ReadonlyMap<string, Error>): Promise<Sent> {
    if (locked.size === 0) return this.#sendAll(settlements)
    const free = settlements.filter(({ id }) => !locked.has(id))
    const sent = free.length === 0 ? NOTHING_SENT : await this.#sendAll(free)
    const answers = sent.settled.values()
    const settled = settlements.map(({ id }): Settled => {
      const failure = locked.get(id)
      return failure === undefined ? (answers.next().value ?? STALE) : { result: 'locked', failure }
    })
    return { ...sent, settled }
  }

  /** Sends a batch in one statement or, where its order matters or tasks follow it, in several, within one transaction. */
  async #sendAll(settlements: readonly Settlement[]): Promise<Sent> {
    const parts = partsOf(settlements)
    const together = parts.length > 1 || isFollowed(settlements) ? undefined : await this.#sendPart(settlements)
    if (together !== undefined) return together
    return this.#database.callTogether(async call => {
      const sent = await this.#sendInOrder(parts, call)
      await this.#enqueues.enqueueWith(call, tasksIfDead(settlements, sent.settled))
      return sent
    })
  }

  async #sendInOrder(parts: readonly (readonly Settlement[])[], call: Call): Promise<Sent> {
    let all = NOTHING_SENT
    const add = (sent = NOTHING_SENT) => {
      all = {
        settled: [...all.settled, ...sent.settled],
        now: Math.max(all.now, sent.now),
        isAnyBounded: all.isAnyBounded || sent.isAnyBounded,
        isAnyBudget: all.isAnyBudget || sent.isAnyBudget,
        isAnyGateOpen: all.isAnyGateOpen || sent.isAnyGateOpen,
        isAnyRefusal: all.isAnyRefusal || sent.isAnyRefusal,
      }
    }
    for (const part of parts) {
      const together = await this.#sendPart(part, call)
      add(together)
      if (together === undefined) for (const settlement of part) add(await this.#sendPart([settlement], call))
    }
    return all
  }

  /** Sends settlements in one statement. `undefined` if they have to come one by one: then nothing has changed. */
  async #sendPart(part: readonly Settlement[], call: Call = (...args) => this.#database.call(...args)) {
    const batch = new SettlementBatch(part)
    const answer = JSON.parse(String(await call('settle', [...batch.encode(), this.#database.at]))) as SettleAnswer
    return 'is_order_needed' in answer
      ? undefined
      : {
          settled: batch.decode(answer),
          now: answer.now,
          isAnyBounded: answer.is_any_bounded,
          isAnyBudget: answer.is_any_budget,
          isAnyGateOpen: answer.is_any_gate_open,
          isAnyRefusal: answer.is_any_refusal,
        }
  }
}

type Call = (fn: string, values: unknown[]) => Promise<unknown>

/** Judges the gates, after ends of attempts have been counted. */
type Judge = (now: number) => Promise<readonly GateChange[]>

interface Sent {
  readonly settled: Settled[]
  /** The time on the store's clock. */
  readonly now: number
  /** There are lanes where the end of one task may let another start. */
  readonly isAnyBounded: boolean
  /** There are budgets, so that failures have to be judged. */
  readonly isAnyBudget: boolean
  /** The gate of a budget is open. */
  readonly isAnyGateOpen: boolean
  /** Rate limits have refused attempts, from which nothing has been learned yet. */
  readonly isAnyRefusal: boolean
}

const NOTHING_SENT: Sent = {
  settled: [],
  now: 0,
  isAnyBounded: false,
  isAnyBudget: false,
  isAnyGateOpen: false,
  isAnyRefusal: false,
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
  return type === 'released' || type === 'lost' || type === 'deferred' || ('delayMs' in outcome && outcome.delayMs <= 0)
}

/** Whether tasks follow if these die. */
function isFollowed(settlements: readonly Settlement[]): boolean {
  return settlements.some(({ ifDead }) => ifDead !== undefined)
}

/** Whether a task waits now for whoever claims it. */
function isBack(outcome: Outcome, settled: Settled | undefined): boolean {
  if (outcome.type === 'advanced') return settled?.result === 'settled'
  return 'delayMs' in outcome || outcome.type === 'released' || outcome.type === 'lost'
}
