import type { Budget, BudgetRecord, BudgetScope, BudgetStore } from '../contract/budget-store.js'
import type { By } from '../contract/ledger.js'
import { NO_COUNTS } from '../rules/budgets/attempt-counts.js'
import {
  budgetRecord,
  byScope,
  withClosedGate,
  withRetrySettings,
  withSettings,
} from '../rules/budgets/budget-state.js'
import {
  type BudgetSettings,
  budgetDeclaration,
  checkedBudget,
  checkScope,
  settingsText,
} from '../rules/budgets/check-budget.js'
import { NEW_GATE } from '../rules/budgets/gate.js'
import { MAX_HELD_SEEN } from '../rules/budgets/retry-allowance.js'
import { checkBy } from '../rules/check.js'
import { budgetRecordOf, gateClosedRecord } from '../rules/operator-record.js'
import { budgetColumns, parsedBudget } from './budget-book.js'
import type { GroupCommit } from './group-commit.js'
import type { BudgetRow } from './statements/budgets.js'
import type { Statements } from './statements.js'

/** The budgets of a SQLite store. */
export class SqliteBudgets implements BudgetStore {
  readonly #statements: Statements
  readonly #commits: GroupCommit
  readonly #now: () => number
  readonly #ring: () => void

  constructor(statements: Statements, commits: GroupCommit, now: () => number, ring: () => void) {
    this.#statements = statements
    this.#commits = commits
    this.#now = now
    this.#ring = ring
  }

  async set(scope: BudgetScope, budget: Budget, by?: By): Promise<void> {
    checkScope(scope)
    checkBy(by)
    const settings = checkedBudget(budget)
    const declaration = budgetDeclaration(scope, budget, settings)
    await this.#commits.write(() => {
      if (declaration !== undefined && this.#statements.declare.run(declaration).changes === 0) return
      const text = settingsText(settings)
      const known = this.#statements.budgetFor.get(columnsOf(scope))
      if (known?.settings !== text) {
        if (known === undefined) this.#add(scope, text)
        else this.#change(known, settings, text)
        this.#changeDependency(settings)
        if (settings.retries !== undefined || known?.settings.includes('"retries"')) this.#rebudget(scope.kind)
      }
      if (by !== undefined) this.#record(budgetRecordOf(scope, settings, by, this.#now()))
    })
    this.#ring()
  }

  async lift(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const isLifted = await this.#commits.write(() => {
      const known = this.#statements.budgetFor.get(columnsOf(scope))
      const isLifted = this.#statements.dropBudget.run(columnsOf(scope)).changes > 0
      if (known?.settings.includes('"retries"')) this.#rebudget(scope.kind, known.id)
      if (isLifted && by !== undefined) this.#record(budgetRecordOf(scope, undefined, by, this.#now()))
      return isLifted
    })
    if (isLifted) this.#ring()
    return isLifted
  }

  async close(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const isClosed = await this.#commits.write(() => {
      const row = this.#statements.budgetFor.get(columnsOf(scope))
      const budget = row && parsedBudget(row)
      const after = budget && withClosedGate(budget)
      if (row === undefined || after === undefined || after === budget) return false
      this.#statements.setBudget.run(...budgetColumns(after), row.id)
      if (by !== undefined) this.#record(gateClosedRecord(scope, by, this.#now()))
      return true
    })
    if (isClosed) this.#ring()
    return isClosed
  }

  async list(): Promise<BudgetRecord[]> {
    const now = this.#now()
    const records = await this.#commits.read(() => {
      const budgets = this.#statements.budgets.all().map(row => ({ id: row.id, budget: parsedBudget(row) }))
      const all = budgets.map(({ budget }) => budget)
      return budgets.map(({ id, budget }) => {
        const held = this.#statements.heldBy.get(id, now, MAX_HELD_SEEN) ?? 0
        return budgetRecord(budget, all, held, now)
      })
    })
    return records.sort(byScope)
  }

  #add(scope: BudgetScope, settings: string): void {
    const fresh = { settings, gate: JSON.stringify(NEW_GATE), counts: JSON.stringify(NO_COUNTS) }
    this.#statements.addBudget.run({ ...columnsOf(scope), ...fresh })
  }

  #change(row: BudgetRow, settings: BudgetSettings, text: string): void {
    this.#statements.changeBudget.run(text, row.id)
    this.#statements.setBudget.run(...budgetColumns(withSettings(parsedBudget(row), settings)), row.id)
  }

  /** Gives the settings of a dependency to all its budgets. */
  #changeDependency(settings: BudgetSettings): void {
    for (const row of this.#statements.budgets.all()) {
      const other = withRetrySettings(JSON.parse(row.settings) as BudgetSettings, settings)
      const text = settingsText(other)
      if (text !== row.settings) this.#change(row, other, text)
    }
  }

  /** Puts the retries of a kind under the budgets that it has now. `lifted` is one that it had. */
  #rebudget(kind: string, lifted?: number): void {
    const own = this.#statements.budgets.all().filter(budget => budget.kind === kind)
    for (const budget of [...own.map(({ id }) => id), ...(lifted === undefined ? [] : [lifted])])
      this.#statements.moveBudgeted.run({ budget })
    this.#statements.adoptRetries.run({ kind, now: this.#now() })
  }

  #record(record: string): void {
    this.#statements.appendAudit.run(this.#now(), record)
  }
}

function columnsOf({ kind, category = null }: { kind: string; category?: string | null | undefined }) {
  return { kind, category }
}
