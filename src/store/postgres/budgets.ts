import type { Budget, BudgetRecord, BudgetScope, BudgetStore, GateChange } from '../contract/budget-store.js'
import type { By } from '../contract/ledger.js'
import { byScope } from '../rules/budgets/budget-state.js'
import {
  type BudgetSettings,
  budgetDeclaration,
  checkedBudget,
  checkScope,
  settingsText,
} from '../rules/budgets/check-budget.js'
import { failureOf, type Gate, gateRecord, judged, NEW_GATE, type Probes, type Recent } from '../rules/budgets/gate.js'
import { type RetryBucket, retryRecord } from '../rules/budgets/retry-allowance.js'
import { checkBy } from '../rules/check.js'
import { budgetRecordOf, gateClosedRecord } from '../rules/operator-record.js'
import type { Database } from './database.js'
import type { Signals } from './signals.js'
import { stored } from './text.js'

/** A budget with its counts, as the SQL function `budgets` returns it. */
interface BudgetRow {
  readonly id: number
  readonly kind: string
  readonly category: string | null
  readonly settings: string
  readonly gate: string
  readonly now: number
  readonly recent: Recent
  readonly probes: Probes
  readonly retries: { readonly held: number; readonly buckets: readonly RetryBucket[] } | null
}

type Call = (fn: string, values: unknown[]) => Promise<unknown>

/** A gate that others keep changing is judged by them. */
const MAX_TRIES = 5

/** The budgets of a PostgreSQL store. */
export class PostgresBudgets implements BudgetStore {
  readonly #database: Database
  readonly #settlements: Database
  readonly #signals: Signals

  /** Budgets are judged on the connection of `settlements`, so that no settlement waits for transactions of handlers. */
  constructor(database: Database, settlements: Database, signals: Signals) {
    this.#database = database
    this.#settlements = settlements
    this.#signals = signals
  }

  async set(scope: BudgetScope, budget: Budget, by?: By): Promise<void> {
    checkScope(scope)
    checkBy(by)
    const settings = checkedBudget(budget)
    const declaration = budgetDeclaration(scope, budget, settings)
    await this.#database.callTogether(async call => {
      if (declaration !== undefined) {
        const isNew = await call('declare_limits', [declaration.lanes, declaration.limits])
        if (isNew !== true) return
      }
      await this.#change(call, scope, settings)
      if (by !== undefined) await this.#record(call, now => budgetRecordOf(scope, settings, by, now))
    })
    this.#signals.ring()
  }

  async lift(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const isLifted = await this.#database.callTogether(async call => {
      const isLifted = await this.#change(call, scope, undefined)
      if (isLifted && by !== undefined) await this.#record(call, now => budgetRecordOf(scope, undefined, by, now))
      return isLifted
    })
    if (isLifted) this.#signals.ring()
    return isLifted
  }

  async close(scope: BudgetScope, by?: By): Promise<boolean> {
    checkScope(scope)
    checkBy(by)
    const isClosed = await this.#database.callTogether(async call => {
      const isClosed =
        (await call('close_gate', [scope.kind, scope.category ?? null, JSON.stringify(NEW_GATE)])) === true
      if (isClosed && by !== undefined) await this.#record(call, now => gateClosedRecord(scope, by, now))
      return isClosed
    })
    if (isClosed) this.#signals.ring()
    return isClosed
  }

  async list(): Promise<BudgetRecord[]> {
    const rows = await read(this.#database, false)
    return rows.map(recordOf).sort(byScope)
  }

  /**
   * Judges the budgets that have counted failures, and the gates that are open. Returns the gates that it opened or closed.
   * The settlement is on record by then, so a failure here is nobody's: the next settlement judges again.
   */
  async judge(): Promise<GateChange[]> {
    try {
      const changes: GateChange[] = []
      for (let tries = 0; tries < MAX_TRIES; tries++) {
        const rows = await read(this.#settlements, true)
        const left = await Promise.all(rows.map(row => this.#judgeOne(row, changes)))
        if (left.every(isDone => isDone)) break
      }
      return changes
    } catch {
      return []
    }
  }

  /** Returns false if somebody else has changed the gate since it was read. */
  async #judgeOne(row: BudgetRow, changes: GateChange[]): Promise<boolean> {
    const { failures } = settingsOf(row)
    const before = gateOf(row)
    const gate =
      failures === undefined ? before : judged(failures, before, { ...row, recent: asFailed(row.recent) }, row.now)
    if (gate === before) return true
    const isChanged = await this.#settlements.call('change_gate', [row.id, row.gate, JSON.stringify(gate)])
    if (isChanged === true) changes.push({ ...scopeOf(row), gate: gateRecord(gate, row.now) })
    return isChanged === true
  }

  async #change(call: Call, { kind, category }: BudgetScope, settings: BudgetSettings | undefined): Promise<boolean> {
    const text = settings === undefined ? null : settingsText(settings)
    const values = [kind, category ?? null, text, JSON.stringify(NEW_GATE), this.#database.at]
    return (await call('set_budget', values)) === true
  }

  async #record(call: Call, recordAt: (now: number) => string): Promise<void> {
    const { at } = this.#database
    const record = recordAt(Number(await call('now_ms', [at])))
    await call('append_audit', [JSON.stringify([record]), at])
  }
}

async function read(database: Database, isToJudge: boolean): Promise<BudgetRow[]> {
  return JSON.parse(String(await database.call('budgets', [isToJudge, database.at]))) as BudgetRow[]
}

function recordOf(row: BudgetRow): BudgetRecord {
  const { attempts, failed } = row.recent
  const { failures, retries } = settingsOf(row)
  const { held = 0, buckets = [] } = row.retries ?? {}
  return {
    ...scopeOf(row),
    failures,
    retries: retries && retryRecord(retries, buckets, held, row.now),
    gate: gateRecord(gateOf(row), row.now),
    recent: { attempts, failed },
  }
}

/** The failure with its code as it was before it was stored. */
function asFailed(recent: Recent): Recent {
  if (recent.failure === '') return recent
  const [code, group]: readonly (string | null)[] = JSON.parse(recent.failure)
  return { ...recent, failure: failureOf(stored(code ?? undefined), group ?? undefined) }
}

function scopeOf({ kind, category }: BudgetRow): BudgetScope {
  return { kind, ...(category !== null && { category }) }
}

function settingsOf({ settings }: BudgetRow): BudgetSettings {
  return JSON.parse(settings) as BudgetSettings
}

function gateOf({ gate }: BudgetRow): Gate {
  return JSON.parse(gate) as Gate
}
