import type { Budget, BudgetRecord, BudgetScope, BudgetStore, GateChange } from '../contract/budget-store.js'
import type { By } from '../contract/ledger.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import {
  budgetOf,
  budgetRecord,
  byScope,
  changesOf,
  judgedGate,
  type KeptBudget,
} from '../rules/budgets/budget-state.js'
import { type BudgetSettings, budgetDeclaration, checkedBudget, checkScope } from '../rules/budgets/check-budget.js'
import { closed, gateRecord } from '../rules/budgets/gate.js'
import { checkBy } from '../rules/check.js'
import { budgetRecordOf, gateClosedRecord } from '../rules/operator-record.js'

/** A gate that others keep changing is judged by them. */
const MAX_TRIES = 5

/** The budgets of every store. */
export class Budgets implements BudgetStore {
  readonly #store: Transactions
  readonly #ring: () => void

  constructor(store: Transactions, ring: () => void) {
    this.#store = store
    this.#ring = ring
  }

  async set(scope: BudgetScope, budget: Budget, by?: By): Promise<void> {
    checkScope(scope)
    checkBy(by)
    const settings = checkedBudget(budget)
    const declaration = budgetDeclaration(scope, budget, settings)
    const isNews = await this.#store.write(function* (tx) {
      if (declaration !== undefined && !(yield* tx.lanes.declare(declaration))) return false
      const now = yield* tx.clock.now()
      yield* change(tx, scope, settings, now)
      if (by !== undefined) yield* tx.audit.append(budgetRecordOf(scope, settings, by, now), now)
      return true
    })
    if (isNews) this.#ring()
  }

  async lift(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const isLifted = await this.#store.write(function* (tx) {
      const all = yield* tx.budgets.lock()
      const known = budgetOf(all, scope)
      if (known === undefined) return false
      const now = yield* tx.clock.now()
      yield* tx.budgets.drop(known.id)
      if (known.settings.retries !== undefined) yield* tx.budgets.rebudget(scope.kind, ofKind(all, scope), now)
      if (by !== undefined) yield* tx.audit.append(budgetRecordOf(scope, undefined, by, now), now)
      return true
    })
    if (isLifted) this.#ring()
    return isLifted
  }

  async close(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const isClosed = await this.#store.write(function* (tx) {
      const known = budgetOf(yield* tx.budgets.lock(), scope)
      if (known?.gate.since === undefined) return false
      yield* tx.budgets.changeGate(known.id, known.gate, closed(known.gate))
      const now = yield* tx.clock.now()
      if (by !== undefined) yield* tx.audit.append(gateClosedRecord(scope, by, now), now)
      return true
    })
    if (isClosed) this.#ring()
    return isClosed
  }

  async list(): Promise<BudgetRecord[]> {
    return this.#store.read(function* (tx) {
      const now = yield* tx.clock.now()
      const all = yield* tx.budgets.list(now)
      return all.map(budget => budgetRecord(budget, all, now)).sort(byScope)
    })
  }
}

/**
 * Judges the gates that are open, and those of budgets that have counted failures. Returns those that it has opened or
 * closed. A verb that settles does this once all is counted: on PostgreSQL after its commit, on the other stores within it.
 */
export function* judgeGates(tx: Tx, now: number): Steps<readonly GateChange[]> {
  const changes: GateChange[] = []
  for (let tries = 0, isOvertaken = true; isOvertaken && tries < MAX_TRIES; tries++) {
    isOvertaken = false
    for (const budget of yield* tx.budgets.toJudge(now)) {
      const gate = judgedGate(budget, now)
      if (gate === budget.gate) continue
      if (yield* tx.budgets.changeGate(budget.id, budget.gate, gate))
        changes.push({ ...budget.scope, gate: gateRecord(gate, now) })
      else isOvertaken = true
    }
  }
  return changes
}

/** Gives a scope these settings, if it has others. Retries that wait come under the budgets that there are then. */
function* change(tx: Tx, scope: BudgetScope, settings: BudgetSettings, now: number): Steps<void> {
  const all = yield* tx.budgets.lock()
  const changes = changesOf(all, scope, settings)
  for (const budget of changes) yield* tx.budgets.save(budget)
  const isOfRetries = settings.retries !== undefined || budgetOf(all, scope)?.settings.retries !== undefined
  if (changes.length > 0 && isOfRetries) yield* tx.budgets.rebudget(scope.kind, ofKind(all, scope), now)
}

function ofKind(all: readonly KeptBudget[], { kind }: BudgetScope): number[] {
  return all.filter(({ scope }) => scope.kind === kind).map(({ id }) => id)
}
