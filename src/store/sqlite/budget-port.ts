import type { BudgetPort } from '../port/budget-port.js'
import {
  afterChange,
  type BudgetChange,
  type BudgetState,
  type CountedBudget,
  countedBudget,
  isToJudge,
  type KeptBudget,
  type ListedBudget,
  withGate,
} from '../rules/budgets/budget-state.js'
import { settingsText } from '../rules/budgets/check-budget.js'
import type { Gate } from '../rules/budgets/gate.js'
import { MAX_HELD_SEEN } from '../rules/budgets/retry-allowance.js'
import { parsedBudget } from './budget-book.js'
import type { SqliteParts } from './port.js'

/** The primitives of budgets on SQLite. */
export class SqliteBudgetPort implements BudgetPort {
  readonly #parts: SqliteParts

  constructor(parts: SqliteParts) {
    this.#parts = parts
  }

  list(now: number): ListedBudget[] {
    const { heldBy, runningIn } = this.#parts.statements
    return this.#all().map(budget => {
      const { id, scope } = budget
      const running = runningIn.get({ kind: scope.kind, category: scope.category ?? null }) ?? 0
      return { ...countedBudget(budget, now), held: heldBy.get(id, now, MAX_HELD_SEEN) ?? 0, running }
    })
  }

  lock(): KeptBudget[] {
    return this.#all()
  }

  toJudge(now: number): CountedBudget[] {
    return this.#all()
      .filter(isToJudge)
      .map(budget => countedBudget(budget, now))
  }

  save(change: BudgetChange): void {
    const { statements } = this.#parts
    const { id } = change
    const row = id === undefined ? undefined : statements.budget.get(id)
    const columns = columnsOf(afterChange(change, row && parsedBudget(row)))
    if (id === undefined)
      statements.addBudget.run({ ...columns, kind: change.scope.kind, category: change.scope.category ?? null })
    else statements.setBudget.run({ ...columns, id })
  }

  drop(id: number): void {
    this.#parts.statements.dropBudget.run(id)
  }

  rebudget(kind: string, ids: readonly number[], now: number): void {
    for (const budget of ids) this.#parts.statements.moveBudgeted.run({ budget })
    this.#parts.statements.adoptRetries.run({ kind, now })
  }

  changeGate(id: number, _: Gate, after: Gate): boolean {
    const { statements } = this.#parts
    const row = statements.budget.get(id)
    if (row === undefined) return false
    statements.setBudget.run({ ...columnsOf(withGate(parsedBudget(row), after)), id })
    return true
  }

  #all(): BudgetState[] {
    return this.#parts.statements.budgets.all().map(parsedBudget)
  }
}

/** The columns of a budget that change. */
function columnsOf({ settings, gate, counts, retries, spent }: Omit<BudgetState, 'id'>) {
  return {
    settings: settingsText(settings),
    gate: JSON.stringify(gate),
    counts: JSON.stringify(counts),
    retries: JSON.stringify(retries),
    spent: JSON.stringify(spent),
  }
}
