import { canonicalJson, OptionError } from '../../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../../policy/internal.js'
import type { Budget, BudgetScope, FailureBudget } from '../budget-store.js'
import { checkName } from '../check.js'
import { BUCKET_MS } from './attempt-counts.js'

/** A budget as a store keeps it, with the defaults filled in. JSON. */
export interface BudgetSettings {
  readonly failures?: Required<FailureBudget>
}

const HOUR_MS = 3_600_000

const SCOPE: KnownOptions<BudgetScope> = { kind: '', category: '' }
const BUDGET: KnownOptions<Budget> = { failures: 'object', isDeclared: '' }
const FAILURES: KnownOptions<FailureBudget> = { share: '', minAttempts: '', windowMs: '', holdMs: '' }

/** Checks the scope of a budget. */
export function checkScope(scope: BudgetScope): void {
  checkOptions('The scope of a budget', scope, SCOPE)
  checkName('kind', scope.kind)
  if (scope.category !== undefined) checkName('category', scope.category)
}

/** A budget with its defaults. An invalid one is an `OptionError`, and so is an empty one: it is lifted instead. */
export function checkedBudget(budget: Budget): BudgetSettings {
  checkOptions('A budget', budget, BUDGET)
  const { failures } = budget
  if (failures === undefined)
    throw new OptionError('failures', 'A budget needs `failures`. To remove a budget, lift it.')
  return { failures: checkedFailures(failures) }
}

function checkedFailures(budget: FailureBudget): Required<FailureBudget> {
  checkOptions("'failures' of a budget", budget, FAILURES)
  const { share, minAttempts = 20, windowMs = 60_000, holdMs = 30_000 } = budget
  if (!(share > 0 && share < 1))
    throw new OptionError('share', `'failures.share' must be above 0 and below 1, such as 0.5, got ${quoted(share)}.`)
  checkRange('minAttempts', minAttempts, 1, 1_000_000)
  checkRange('windowMs', windowMs, BUCKET_MS, HOUR_MS)
  checkRange('holdMs', holdMs, 1, HOUR_MS)
  return { share, minAttempts, windowMs, holdMs }
}

function checkRange(option: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return
  const range = `a whole number from ${min} to ${max}`
  throw new OptionError(option, `'failures.${option}' must be ${range}, got ${quoted(value)}.`)
}

/** A budget that code declares, as texts that two equal declarations share; `undefined` if it is an operator's. */
export function budgetDeclaration(
  { kind, category }: BudgetScope,
  { isDeclared }: Budget,
  settings: BudgetSettings,
): { readonly lanes: string; readonly limits: string } | undefined {
  if (isDeclared !== true) return undefined
  return { lanes: JSON.stringify({ budget: { kind, category } }), limits: canonicalJson(settings) }
}

/** The text of settings, by which they are compared and kept. */
export function settingsText(settings: BudgetSettings): string {
  return canonicalJson(settings)
}
