import type { BudgetChange, CountedBudget, KeptBudget, ListedBudget } from '../rules/budgets/budget-state.js'
import type { Gate } from '../rules/budgets/gate.js'

/** The primitives of budgets. What claims and settlements do with them is a fast path of each store. */
export interface BudgetPort {
  /** All budgets, with their figures. */
  list(now: number): readonly ListedBudget[]
  /** All budgets. Nobody else changes one until the transaction ends. */
  lock(): readonly KeptBudget[]
  /** Those whose gate is open, and at least those that have counted failures lately. */
  toJudge(now: number): readonly CountedBudget[]
  /** Adds a budget, or changes one. */
  save(change: BudgetChange): void
  /** Forgets a budget, and what it has counted. Its retries wait until they are put under another, or none. */
  drop(id: number): void
  /** Puts retries under the budgets of their lanes: those that wait under these, and those of the kind that are not due yet. */
  rebudget(kind: string, ids: readonly number[], now: number): void
  /** Changes a gate, unless somebody else has since. Returns whether it did. One that closes counts afresh. */
  changeGate(id: number, before: Gate, after: Gate): boolean
}
