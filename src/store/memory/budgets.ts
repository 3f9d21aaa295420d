import type { Budget, BudgetRecord, BudgetScope, BudgetStore, GateChange } from '../budget-store.js'
import type { Answer } from '../budgets/attempt-counts.js'
import {
  afterEnds,
  type BudgetState,
  budgetRecord,
  byScope,
  gateChange,
  newBudget,
  withClosedGate,
} from '../budgets/budget-state.js'
import { budgetDeclaration, checkedBudget, checkScope, settingsText } from '../budgets/check-budget.js'
import { isCovering, type OpenGate } from '../budgets/claim-gates.js'
import { allowance, isProbe, nextLook, taken } from '../budgets/gate.js'
import { checkBy } from '../check.js'
import { budgetRecordOf, gateClosedRecord } from '../operator-record.js'
import type { By, Lane } from '../store.js'

/** The part of the memory store that budgets need. */
export interface BudgetHost {
  now(): number
  /** Notes a declaration. Returns false if it is the same as the last one. */
  isNews(declaration: { readonly lanes: string; readonly limits: string } | undefined): boolean
  /** Whether tasks of a scope run. */
  isRunning(scope: BudgetScope): boolean
  /** Appends an audit record. */
  record(record: string): void
  /** Calls the watchers. */
  ring(): void
}

/** The budgets of the memory store. */
export class MemoryBudgets implements BudgetStore {
  readonly #host: BudgetHost
  readonly #budgets = new Map<string, BudgetState>()
  #changes: GateChange[] = []

  constructor(host: BudgetHost) {
    this.#host = host
  }

  async set(scope: BudgetScope, budget: Budget, by?: By): Promise<void> {
    checkScope(scope)
    checkBy(by)
    const settings = checkedBudget(budget)
    if (!this.#host.isNews(budgetDeclaration(scope, budget, settings))) return
    const known = this.#budgets.get(nameOf(scope))
    if (known === undefined || settingsText(known.settings) !== settingsText(settings))
      this.#budgets.set(nameOf(scope), newBudget(named(scope), settings))
    if (by !== undefined) this.#host.record(budgetRecordOf(scope, settings, by, this.#host.now()))
    this.#host.ring()
  }

  async lift(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const isLifted = this.#budgets.delete(nameOf(scope))
    if (isLifted && by !== undefined) this.#host.record(budgetRecordOf(scope, undefined, by, this.#host.now()))
    if (isLifted) this.#host.ring()
    return isLifted
  }

  async close(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const known = this.#budgets.get(nameOf(scope))
    const after = known && withClosedGate(known)
    if (after === undefined || after === known) return false
    this.#budgets.set(nameOf(scope), after)
    if (by !== undefined) this.#host.record(gateClosedRecord(scope, by, this.#host.now()))
    this.#host.ring()
    return true
  }

  async list(): Promise<BudgetRecord[]> {
    const now = this.#host.now()
    return [...this.#budgets.values()].map(budget => budgetRecord(budget, now)).sort(byScope)
  }

  /** Counts the end of a run. Returns whether a gate that covers the lane is open, so that another task may start now. */
  ended(lane: Lane, answer: Answer, failure: string, began: number, now: number): boolean {
    if (this.#budgets.size === 0) return false
    let isAnyOpen = false
    for (const [name, budget] of this.#budgets) {
      if (!isCovering(budget.scope, lane)) continue
      const ended = { answer, failure, isProbe: isProbe(budget.gate, began), count: 1 }
      const after = afterEnds(budget, [ended], now)
      this.#budgets.set(name, after)
      const change = gateChange(budget.gate, after, now)
      if (change !== undefined) this.#changes.push(change)
      isAnyOpen ||= budget.gate.since !== undefined
    }
    return isAnyOpen
  }

  /** The gates that have changed since this was last asked. */
  takeChanges(): readonly GateChange[] {
    const changes = this.#changes
    if (changes.length > 0) this.#changes = []
    return changes
  }

  /** The open gates, as a claim goes by them. */
  openGates(now: number): readonly OpenGate[] {
    if (this.#budgets.size === 0) return []
    return [...this.#budgets.values()].flatMap(({ scope, gate, counts }) => {
      if (gate.since === undefined) return []
      return [{ ...scope, left: allowance(gate, counts.probes, now, () => !this.#host.isRunning(scope)), taken: 0 }]
    })
  }

  /** Notes what a claim has taken. */
  passed(gates: readonly OpenGate[], now: number): void {
    for (const gate of gates) {
      const budget = this.#budgets.get(nameOf(gate))
      if (budget !== undefined && gate.taken > 0)
        this.#budgets.set(nameOf(gate), { ...budget, gate: taken(budget.gate, gate.taken, now) })
    }
  }

  /** Whether the gate of a lane is open. */
  isGated(lane: Lane): boolean {
    if (this.#budgets.size === 0) return false
    return [...this.#budgets.values()].some(({ scope, gate }) => gate.since !== undefined && isCovering(scope, lane))
  }

  /** When gates that let nothing through are worth asking again. */
  nextLook(gates: readonly OpenGate[], now: number): number {
    const shut = gates.filter(({ left }) => left <= 0).flatMap(gate => this.#budgets.get(nameOf(gate)) ?? [])
    return Math.min(Infinity, ...shut.map(({ gate }) => nextLook(gate, now)))
  }
}

function nameOf({ kind, category }: BudgetScope): string {
  return JSON.stringify([kind, category])
}

function named({ kind, category }: BudgetScope): BudgetScope {
  return { kind, ...(category !== undefined && { category }) }
}
