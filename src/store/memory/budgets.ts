import type { BudgetScope } from '../contract/budget-store.js'
import type { Lane } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'
import type { BudgetPort } from '../port/budget-port.js'
import type { After } from '../rules/after-settlement.js'
import {
  affordable,
  afterChange,
  afterEnds,
  type BudgetChange,
  type BudgetState,
  type CountedBudget,
  countedBudget,
  isGating,
  isHolding,
  isToJudge,
  type ListedBudget,
  nextStart,
  withGate,
  withSpent,
} from '../rules/budgets/budget-state.js'
import { isCovering, type OpenGate } from '../rules/budgets/claim-gates.js'
import { afterStarts, failureOf, type Gate, isProbe, startsLeft } from '../rules/budgets/gate.js'
import {
  afterRetries,
  byAllowance,
  nextRetriesAt,
  retriesAllowed,
  retryBudgetOf,
} from '../rules/budgets/shared-allowance.js'

/** The part of the memory store that budgets need. */
export interface BudgetHost {
  /** How many tasks of a scope run. */
  running(scope: BudgetScope): number
  /** Makes up to `most` due retries of these budgets ready, in all. Returns how many of each there were. */
  letThrough(budgets: readonly number[], most: number, now: number): ReadonlyMap<number, number>
  /** When the first retry of a budget is due, or was. */
  nextBudgeted(budget: number): number
  /** How many retries of a budget are due. */
  heldBy(budget: number, now: number): number
  /** Puts the retries of a kind under the budgets that it has now. */
  rebudget(kind: string, now: number): void
}

/** The budgets of the memory store. */
export class MemoryBudgets implements BudgetPort {
  readonly #host: BudgetHost
  readonly #budgets = new Map<number, BudgetState>()
  #lastId = 0
  #hasToJudge = false

  constructor(host: BudgetHost) {
    this.#host = host
  }

  list(now: number): ListedBudget[] {
    return this.lock().map(budget => {
      const { id, scope } = budget
      return { ...countedBudget(budget, now), held: this.#host.heldBy(id, now), running: this.#host.running(scope) }
    })
  }

  lock(): BudgetState[] {
    return [...this.#budgets.values()]
  }

  toJudge(now: number): CountedBudget[] {
    return this.lock()
      .filter(isToJudge)
      .map(budget => countedBudget(budget, now))
  }

  save(change: BudgetChange): void {
    const { id = ++this.#lastId } = change
    this.#budgets.set(id, { id, ...afterChange(change, this.#budgets.get(id)) })
  }

  drop(id: number): void {
    this.#budgets.delete(id)
  }

  rebudget(kind: string, _: readonly number[], now: number): void {
    this.#host.rebudget(kind, now)
  }

  changeGate(id: number, _: Gate, after: Gate): boolean {
    const budget = this.#budgets.get(id)
    if (budget !== undefined) this.#budgets.set(id, withGate(budget, after))
    return budget !== undefined
  }

  /** Counts the end of a run. Returns whether a budget bounds how many tasks run in the lane, so that another may start now. */
  ended(lane: Lane, { answer, isFirst, ...after }: After, began: number, now: number): boolean {
    if (this.#budgets.size === 0) return false
    const failure = failureOf(after.errorCode, after.failed?.id)
    const earning = isFirst ? retryBudgetOf(this.#budgets.values(), lane) : undefined
    let isAnyOpen = false
    for (const [id, budget] of this.#budgets) {
      if (!isCovering(budget.scope, lane)) continue
      const first = budget === earning ? 1 : 0
      const ended = { answer, failure, isProbe: isProbe(budget.gate, began), count: 1, first }
      this.#budgets.set(id, afterEnds(budget, [ended], now))
      isAnyOpen ||= isGating(budget)
    }
    this.#hasToJudge ||= isAnyOpen || answer === 'failed'
    return isAnyOpen
  }

  /** Counts what an attempt in a lane has spent. */
  spent(lane: Lane, used: Cost, now: number): void {
    for (const [id, budget] of this.#budgets)
      if (isCovering(budget.scope, lane)) this.#budgets.set(id, withSpent(budget, { attempts: 1, used }, now))
  }

  /** Whether a gate may have to change for what has been counted since this was last asked. */
  takeToJudge(): boolean {
    const hasToJudge = this.#hasToJudge
    this.#hasToJudge = false
    return hasToJudge
  }

  /** The id of the retry budget of a lane; `undefined` if it has none. */
  retryBudgetOf(lane: Lane): number | undefined {
    return this.#budgets.size === 0 ? undefined : retryBudgetOf(this.#budgets.values(), lane)?.id
  }

  /** The scope of a budget. */
  scopeOf(id: number | undefined): BudgetScope | undefined {
    return id === undefined ? undefined : this.#budgets.get(id)?.scope
  }

  /** Lets due retries through, as many as their budgets allow. */
  letRetriesThrough(now: number): void {
    if (this.#budgets.size === 0) return
    for (const sharing of byAllowance(this.#budgets.values())) {
      const most = retriesAllowed(sharing, now)
      if (most === 0) continue
      const ids = sharing.map(({ id }) => id)
      const passed = this.#host.letThrough(ids, most, now)
      const counts = ids.map(id => passed.get(id) ?? 0)
      for (const budget of afterRetries(sharing, counts, now)) this.#budgets.set(budget.id, budget)
    }
  }

  /** When a claim should ask for retries that wait under a budget. */
  nextRetryAt(now: number): number {
    if (this.#budgets.size === 0) return Infinity
    const times = byAllowance(this.#budgets.values()).map(sharing => {
      const first = Math.min(...sharing.map(({ id }) => this.#host.nextBudgeted(id)))
      return first <= now ? nextRetriesAt(sharing, now) : first
    })
    return Math.min(Infinity, ...times)
  }

  /** The open gates, as a claim goes by them. */
  openGates(now: number): readonly OpenGate[] {
    if (this.#budgets.size === 0) return []
    return this.lock()
      .filter(isGating)
      .map(budget => {
        const { id, scope, gate, counts } = budget
        const running = () => this.#host.running(scope)
        const probes = startsLeft(gate, counts.probes, now, () => running() === 0)
        return { ...scope, id, left: Math.min(probes, affordable(budget, running, now)), started: 0 }
      })
  }

  /** Notes which tasks a claim has started. */
  noteStarts(gates: readonly OpenGate[], now: number): void {
    for (const { id, started } of gates) {
      const budget = this.#budgets.get(id)
      if (budget?.gate.since !== undefined)
        this.#budgets.set(id, { ...budget, gate: afterStarts(budget.gate, started, now) })
    }
  }

  /** Whether only a claim may start tasks of a lane: its gate is open, or their cost is limited. */
  isGated(lane: Lane): boolean {
    return this.#budgets.size > 0 && this.lock().some(budget => isGating(budget) && isCovering(budget.scope, lane))
  }

  /** Whether a budget keeps all tasks of a lane back. */
  isHeld(lane: Lane, now: number): boolean {
    return [...this.#budgets.values()].some(budget => isHolding(budget, now) && isCovering(budget.scope, lane))
  }

  /** When gates that let nothing through are worth asking again. */
  nextLook(gates: readonly OpenGate[], now: number): number {
    const shut = gates.filter(({ left }) => left <= 0).flatMap(({ id }) => this.#budgets.get(id) ?? [])
    return Math.min(Infinity, ...shut.map(budget => nextStart(budget, now)))
  }
}
