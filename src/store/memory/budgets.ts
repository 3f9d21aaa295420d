import type { Budget, BudgetRecord, BudgetScope, BudgetStore, GateChange } from '../contract/budget-store.js'
import type { Lane } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import type { After } from '../rules/after-settlement.js'
import {
  afterEnds,
  afterRetries,
  type BudgetState,
  budgetRecord,
  byAllowance,
  byScope,
  gateChange,
  newBudget,
  nextRetriesAt,
  retriesAllowed,
  retryBudgetOf,
  withClosedGate,
  withRetrySettings,
  withSettings,
} from '../rules/budgets/budget-state.js'
import { budgetDeclaration, checkedBudget, checkScope, settingsText } from '../rules/budgets/check-budget.js'
import { isCovering, type OpenGate } from '../rules/budgets/claim-gates.js'
import { allowance, failureOf, isProbe, nextLook, taken } from '../rules/budgets/gate.js'
import { checkBy } from '../rules/check.js'
import { budgetRecordOf, gateClosedRecord } from '../rules/operator-record.js'

/** The part of the memory store that budgets need. */
export interface BudgetHost {
  now(): number
  /** Notes a declaration. Returns false if it is the same as the last one. */
  isNews(declaration: { readonly lanes: string; readonly limits: string } | undefined): boolean
  /** Whether tasks of a scope run. */
  isRunning(scope: BudgetScope): boolean
  /** Makes up to `most` due retries of these budgets ready, in all. Returns how many of each there were. */
  letThrough(budgets: readonly string[], most: number, now: number): ReadonlyMap<string, number>
  /** When the first retry of a budget is due, or was. */
  nextBudgeted(budget: string): number
  /** How many retries of a budget are due. */
  heldBy(budget: string, now: number): number
  /** Puts the retries of a kind under the budgets that it has now. */
  rebudget(kind: string, now: number): void
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
    const isOther = known === undefined || settingsText(known.settings) !== settingsText(settings)
    if (isOther)
      this.#budgets.set(nameOf(scope), known ? withSettings(known, settings) : newBudget(named(scope), settings))
    if (isOther) {
      for (const [name, other] of this.#budgets)
        this.#budgets.set(name, withSettings(other, withRetrySettings(other.settings, settings)))
      if (settings.retries !== undefined || known?.settings.retries !== undefined)
        this.#host.rebudget(scope.kind, this.#host.now())
    }
    if (by !== undefined) this.#host.record(budgetRecordOf(scope, settings, by, this.#host.now()))
    this.#host.ring()
  }

  async lift(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const known = this.#budgets.get(nameOf(scope))
    const isLifted = this.#budgets.delete(nameOf(scope))
    if (known?.settings.retries !== undefined) this.#host.rebudget(scope.kind, this.#host.now())
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
    const all = [...this.#budgets.values()]
    return [...this.#budgets]
      .map(([name, budget]) => budgetRecord(budget, all, this.#host.heldBy(name, now), now))
      .sort(byScope)
  }

  /** Counts the end of a run. Returns whether a gate that covers the lane is open, so that another task may start now. */
  ended(lane: Lane, { answer, isFirst, ...after }: After, began: number, now: number): boolean {
    if (this.#budgets.size === 0) return false
    const failure = failureOf(after.errorCode, after.failed?.id)
    const earning = isFirst ? retryBudgetOf(this.#budgets.values(), lane) : undefined
    let isAnyOpen = false
    for (const [name, budget] of this.#budgets) {
      if (!isCovering(budget.scope, lane)) continue
      const first = budget === earning ? 1 : 0
      const ended = { answer, failure, isProbe: isProbe(budget.gate, began), count: 1, first }
      const after = afterEnds(budget, [ended], now)
      this.#budgets.set(name, after)
      const change = gateChange(budget.gate, after, now)
      if (change !== undefined) this.#changes.push(change)
      isAnyOpen ||= budget.gate.since !== undefined
    }
    return isAnyOpen
  }

  /** The name of the retry budget of a lane; `undefined` if it has none. */
  retryBudgetOf(lane: Lane): string | undefined {
    if (this.#budgets.size === 0) return undefined
    const budget = retryBudgetOf(this.#budgets.values(), lane)
    return budget && nameOf(budget.scope)
  }

  /** Lets due retries through, as many as their budgets allow. */
  letRetriesThrough(now: number): void {
    if (this.#budgets.size === 0) return
    for (const sharing of byAllowance(this.#budgets.values())) {
      const most = retriesAllowed(sharing, now)
      if (most === 0) continue
      const names = sharing.map(({ scope }) => nameOf(scope))
      const counts = this.#host.letThrough(names, most, now)
      const after = afterRetries(
        sharing,
        names.map(name => counts.get(name) ?? 0),
        now,
      )
      for (const budget of after) this.#budgets.set(nameOf(budget.scope), budget)
    }
  }

  /** When retries that wait under a budget are worth asking for. */
  nextRetryAt(now: number): number {
    if (this.#budgets.size === 0) return Infinity
    const times = byAllowance(this.#budgets.values()).map(sharing => {
      const first = Math.min(...sharing.map(({ scope }) => this.#host.nextBudgeted(nameOf(scope))))
      return first <= now ? nextRetriesAt(sharing, now) : first
    })
    return Math.min(Infinity, ...times)
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

/** The scope that a budget is named after. */
export function scopeNamed(name: string): BudgetScope {
  const [kind, category]: [string, string | null] = JSON.parse(name)
  return { kind, ...(category !== null && { category }) }
}

function nameOf({ kind, category }: BudgetScope): string {
  return JSON.stringify([kind, category])
}

function named({ kind, category }: BudgetScope): BudgetScope {
  return { kind, ...(category !== undefined && { category }) }
}
