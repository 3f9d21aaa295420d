import type { GateChange } from '../budget-store.js'
import type { Answer, AttemptCounts, Ended } from '../budgets/attempt-counts.js'
import { afterEnds, type BudgetState, gateChange } from '../budgets/budget-state.js'
import type { BudgetSettings } from '../budgets/check-budget.js'
import { isCovering, type OpenGate } from '../budgets/claim-gates.js'
import { allowance, type Gate, isProbe, nextLook, taken } from '../budgets/gate.js'
import type { Lane } from '../store.js'
import type { BudgetRow, Statements } from './statements.js'

/** A budget, and the ends that a job has counted for it. */
interface Entry {
  readonly id: number
  budget: BudgetState
  /** By answer, failure and whether they were probes. */
  readonly ends: Map<string, { -readonly [Field in keyof Ended]: Ended[Field] }>
}

/** The budgets that a job reads and changes, so that each is written once. */
export class BudgetBook {
  /** The gates that this job has opened or closed. Known once it is written. */
  readonly changes: GateChange[] = []
  readonly #statements: Statements
  readonly #entries: readonly Entry[]
  /** The budgets of a lane, looked up once. */
  readonly #ofLanes = new Map<number, readonly Entry[]>()
  #endedAt = 0

  constructor(statements: Statements) {
    this.#statements = statements
    this.#entries = statements.budgets.all().map(row => ({ id: row.id, budget: parsedBudget(row), ends: new Map() }))
  }

  /** Whether any gate is open. */
  get isAnyOpen(): boolean {
    return this.#entries.some(isOpen)
  }

  /** Whether a gate of a lane is open. */
  isGated(lane: number): boolean {
    return this.#entriesOf(lane).some(isOpen)
  }

  /** Counts the end of a run, or of several, in a lane. */
  ended(lane: number, answer: Answer, failure: string, began: number, now: number, count = 1): void {
    this.#endedAt = now
    for (const { budget, ends } of this.#entriesOf(lane)) {
      const isOneProbe = isProbe(budget.gate, began)
      if (answer === 'none' && !isOneProbe) continue
      const name = `${isOneProbe} ${answer} ${failure}`
      const known = ends.get(name)
      if (known === undefined) ends.set(name, { answer, failure, isProbe: isOneProbe, count })
      else known.count += count
    }
  }

  /** The open gates, as a claim goes by them. */
  openGates(now: number): OpenGate[] {
    return this.#entries.filter(isOpen).map(({ budget: { scope, gate, counts } }) => {
      const isIdle = () => this.#statements.runningIn.get({ kind: scope.kind, category: scope.category ?? null }) === 0
      return { ...scope, left: allowance(gate, counts.probes, now, isIdle), taken: 0 }
    })
  }

  /** Notes what a claim has taken. Returns when gates that let nothing through are worth asking again. */
  passed(gates: readonly OpenGate[], now: number): number {
    let next = Infinity
    for (const [n, entry] of this.#entries.filter(isOpen).entries()) {
      const { left = 0, taken: count = 0 } = gates[n] ?? {}
      const gate = taken(entry.budget.gate, count, now)
      if (gate !== entry.budget.gate) this.#write(entry, { ...entry.budget, gate })
      if (left <= 0) next = Math.min(next, nextLook(gate, now))
    }
    return next
  }

  write(): void {
    const now = this.#endedAt
    for (const entry of this.#entries) {
      if (entry.ends.size === 0) continue
      const after = afterEnds(entry.budget, [...entry.ends.values()], now)
      const change = gateChange(entry.budget.gate, after, now)
      if (change !== undefined) this.changes.push(change)
      this.#write(entry, after)
    }
  }

  #write(entry: Entry, budget: BudgetState): void {
    entry.budget = budget
    this.#statements.setBudget.run(JSON.stringify(budget.gate), JSON.stringify(budget.counts), entry.id)
  }

  #entriesOf(lane: number): readonly Entry[] {
    let entries = this.#ofLanes.get(lane)
    if (entries === undefined) {
      const named: Lane | undefined = this.#statements.lane.get(lane)
      entries = named === undefined ? [] : this.#entries.filter(({ budget }) => isCovering(budget.scope, named))
      this.#ofLanes.set(lane, entries)
    }
    return entries
  }
}

/** Reads a row of the table `budget`. */
export function parsedBudget({ kind, category, settings, gate, counts }: BudgetRow): BudgetState {
  return {
    scope: { kind, ...(category !== null && { category }) },
    settings: JSON.parse(settings) as BudgetSettings,
    gate: JSON.parse(gate) as Gate,
    counts: JSON.parse(counts) as AttemptCounts,
  }
}

function isOpen({ budget }: Entry): boolean {
  return budget.gate.since !== undefined
}
