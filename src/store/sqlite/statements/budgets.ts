import { ALONE_FROM_LOSSES } from '../../rules/after-settlement.js'
import type { Preparer } from '../driver.js'

/** A budget: its last five columns are JSON. */
export interface BudgetRow {
  readonly id: number
  readonly kind: string
  readonly category: string | null
  readonly settings: string
  readonly gate: string
  readonly counts: string
  readonly retries: string
  readonly spent: string
}

/** The scope of a budget; NULL: all categories. */
export interface ScopeRow {
  readonly kind: string
  readonly category: string | null
}

/** The retry budget of a lane: that of its category, or else that of its kind. NULL if it has none. */
const RETRY_BUDGET = /* sql */ `(
  SELECT budget.id FROM budget
  WHERE budget.kind = lane.kind AND ifnull(budget.category = lane.category, 1)
    AND budget.settings ->> '$.retries' IS NOT NULL
  ORDER BY budget.category IS NULL
  LIMIT 1)`

/** Keeps budgets, and the retries that wait under them. */
export function budgetStatements(db: Preparer) {
  return {
    budgets: db.prepare<[], BudgetRow>(/* sql */ `
      SELECT id, kind, category, settings, gate, counts, retries, spent FROM budget`),
    budget: db.prepare<[number], BudgetRow>(/* sql */ `
      SELECT id, kind, category, settings, gate, counts, retries, spent FROM budget WHERE id = ?`),
    addBudget: db.prepare(/* sql */ `
      INSERT INTO budget (kind, category, settings, gate, counts, retries, spent)
      VALUES (:kind, :category, :settings, :gate, :counts, :retries, :spent)`),
    setBudget: db.prepare(/* sql */ `
      UPDATE budget SET settings = :settings, gate = :gate, counts = :counts, retries = :retries, spent = :spent
      WHERE id = :id`),
    countBudget: db.prepare(/* sql */ `UPDATE budget SET gate = ?, counts = ?, retries = ?, spent = ? WHERE id = ?`),
    /** Puts retries that wait under a budget under the one that their lane has now. */
    moveBudgeted: db.prepare<{ budget: number }>(/* sql */ `
      UPDATE task
      SET budget = its.budget,
          state = CASE WHEN its.budget IS NOT NULL THEN -1 WHEN NOT its.ordered THEN 0
                       WHEN task.losses >= ${ALONE_FROM_LOSSES} THEN 2 ELSE 1 END
      FROM (SELECT lane.id, lane.ordered, ${RETRY_BUDGET} AS budget FROM lane) AS its
      WHERE its.id = task.lane AND task.state = -1 AND task.budget = :budget AND its.budget IS NOT :budget`),
    /** Puts a retry that was moved here under the budget of its lane. */
    placeBudgeted: db.prepare<[number | bigint]>(/* sql */ `
      UPDATE task SET budget = its.budget, state = CASE WHEN its.budget IS NULL THEN 0 ELSE -1 END
      FROM (SELECT lane.id, ${RETRY_BUDGET} AS budget FROM lane) AS its
      WHERE its.id = task.lane AND task.seq = ?`),
    /** Puts retries that are not due yet under the budget of their lane. */
    adoptRetries: db.prepare<{ kind: string; now: number }>(/* sql */ `
      UPDATE task SET state = -1, budget = its.budget
      FROM (SELECT lane.id, ${RETRY_BUDGET} AS budget FROM lane WHERE lane.kind = :kind AND NOT lane.ordered) AS its
      WHERE its.id = task.lane AND its.budget IS NOT NULL
        AND task.state = 0 AND task.next_at > :now AND task.attempts > 0`),
    heldBy: db
      .prepare<[number, number, number], number>(/* sql */ `
        SELECT count(*) FROM (
          SELECT 1 FROM task INDEXED BY task_budgeted WHERE state = -1 AND budget = ? AND next_at <= ? LIMIT ? + 0
        )`)
      .pluck(),
    dropBudget: db.prepare<[number]>(/* sql */ `DELETE FROM budget WHERE id = ?`),
    runningIn: db
      .prepare<ScopeRow, number>(/* sql */ `
        SELECT ifnull(sum(running), 0) FROM lane WHERE kind = :kind AND (:category IS NULL OR category = :category)`)
      .pluck(),
  }
}
