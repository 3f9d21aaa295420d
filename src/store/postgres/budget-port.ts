import type { BudgetPort } from '../port/budget-port.js'
import type { Promised } from '../port/steps.js'
import type { BudgetChange, CountedBudget, KeptBudget, ListedBudget } from '../rules/budgets/budget-state.js'
import { type BudgetSettings, settingsText } from '../rules/budgets/check-budget.js'
import type { SpentWindow } from '../rules/budgets/cost-gate.js'
import { failureOf, type Gate, type Probes, type Recent } from '../rules/budgets/gate.js'
import type { RetryBucket } from '../rules/budgets/retry-allowance.js'
import type { Sql } from './database.js'
import { stored } from './text.js'

/** The primitives of budgets on PostgreSQL. */
export class PostgresBudgetPort implements Promised<BudgetPort> {
  readonly #sql: Sql

  constructor(sql: Sql) {
    this.#sql = sql
  }

  async list(now: number): Promise<ListedBudget[]> {
    const rows = await this.#read<ListedRow>('list_budgets', [now])
    return rows.map(row => {
      const { retries, held, spent, running } = row
      return { ...counted(row), retries, held, spent, running }
    })
  }

  async lock(): Promise<KeptBudget[]> {
    return (await this.#read<BudgetRow>('lock_budgets', [])).map(kept)
  }

  async toJudge(now: number): Promise<CountedBudget[]> {
    return (await this.#read<CountedRow>('budgets_to_judge', [now])).map(counted)
  }

  async save(change: BudgetChange): Promise<void> {
    const { id, scope, settings, gate, countsAfresh, hasFreshFloor, hasFreshWindows } = change
    const { kind, category = null } = scope
    const values = [
      id ?? null,
      kind,
      category,
      settingsText(settings),
      JSON.stringify(gate),
      countsAfresh,
      hasFreshFloor,
      hasFreshWindows,
    ]
    await this.#sql.call('save_budget', values)
  }

  async drop(id: number): Promise<void> {
    await this.#sql.call('drop_budget', [id])
  }

  async rebudget(kind: string, ids: readonly number[], now: number): Promise<void> {
    await this.#sql.call('rebudget', [kind, ids, now])
  }

  async changeGate(id: number, before: Gate, after: Gate): Promise<boolean> {
    return (await this.#sql.call('change_gate', [id, JSON.stringify(before), JSON.stringify(after)])) === true
  }

  async #read<Row>(fn: string, values: unknown[]): Promise<Row[]> {
    return JSON.parse(String(await this.#sql.call(fn, values))) as Row[]
  }
}

/** A budget, as `lock_budgets` returns it. */
interface BudgetRow {
  readonly id: number
  readonly kind: string
  readonly category: string | null
  readonly settings: string
  readonly gate: string
}

interface CountedRow extends BudgetRow {
  readonly recent: Recent
  readonly probes: Probes
}

interface ListedRow extends CountedRow {
  readonly retries: readonly RetryBucket[]
  readonly held: number
  readonly spent: readonly SpentWindow[]
  readonly running: number
}

function kept({ id, kind, category, settings, gate }: BudgetRow): KeptBudget {
  return {
    id,
    scope: { kind, ...(category !== null && { category }) },
    settings: JSON.parse(settings) as BudgetSettings,
    gate: JSON.parse(gate) as Gate,
  }
}

function counted(row: CountedRow): CountedBudget {
  return { ...kept(row), recent: asFailed(row.recent), probes: row.probes }
}

/** The failure with its code as it was before it was stored. */
function asFailed(recent: Recent): Recent {
  if (recent.failure === '') return recent
  const [code, group]: readonly (string | null)[] = JSON.parse(recent.failure)
  return { ...recent, failure: failureOf(stored(code ?? undefined), group ?? undefined) }
}
