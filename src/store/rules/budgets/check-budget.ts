import { canonicalJson, OptionError } from '../../../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../../../policy/internal.js'
import type { Budget, BudgetScope, CostBudget, FailureBudget, RetryAllowance } from '../../contract/budget-store.js'
import { checkCost, checkName } from '../check.js'
import { BUCKET_MS } from './attempt-counts.js'
import type { CostSettings } from './cost-gate.js'

/** A budget as a store keeps it, with the defaults filled in. JSON. */
export interface BudgetSettings {
  readonly failures?: Required<FailureBudget>
  readonly retries?: RetrySettings
  readonly cost?: CostSettings
}

/** A retry budget with its defaults. */
export interface RetrySettings extends Required<Omit<RetryAllowance, 'dependency'>> {
  readonly dependency?: string
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS
const MAX_FLOOR = 1_000_000
const MIN_AMOUNT = 1e-6
const MAX_AMOUNT = 1e15

const SCOPE: KnownOptions<BudgetScope> = { kind: '', category: '' }
const BUDGET: KnownOptions<Budget> = { failures: 'object', retries: 'object', cost: 'object', isDeclared: '' }
const FAILURES: KnownOptions<FailureBudget> = { share: '', minAttempts: '', windowMs: '', holdMs: '' }
const COST: KnownOptions<CostBudget> = { amounts: 'object', windowMs: '' }
const RETRIES: KnownOptions<RetryAllowance> = { share: '', windowMs: '', floor: '', dependency: '' }

/** Checks the scope of a budget. */
export function checkScope(scope: BudgetScope): void {
  checkOptions('The scope of a budget', scope, SCOPE)
  checkName('kind', scope.kind)
  if (scope.category !== undefined) checkName('category', scope.category)
}

/** A budget with its defaults. An invalid one is an `OptionError`, and so is an empty one: it is lifted instead. */
export function checkedBudget(budget: Budget): BudgetSettings {
  checkOptions('A budget', budget, BUDGET)
  const { failures, retries, cost } = budget
  if (failures === undefined && retries === undefined && cost === undefined)
    throw new OptionError('failures', 'A budget needs `failures`, `retries` or `cost`. To remove a budget, lift it.')
  return {
    ...(failures !== undefined && { failures: checkedFailures(failures) }),
    ...(retries !== undefined && { retries: checkedRetries(retries) }),
    ...(cost !== undefined && { cost: checkedCost(cost) }),
  }
}

function checkedFailures(budget: FailureBudget): Required<FailureBudget> {
  checkOptions("'failures' of a budget", budget, FAILURES)
  const { share, minAttempts = 20, windowMs = 60_000, holdMs = 30_000 } = budget
  if (!(share > 0 && share < 1))
    throw new OptionError('share', `'failures.share' must be above 0 and below 1, such as 0.5, got ${quoted(share)}.`)
  checkRange('failures.minAttempts', minAttempts, 1, 1_000_000)
  checkRange('failures.windowMs', windowMs, BUCKET_MS, HOUR_MS)
  checkRange('failures.holdMs', holdMs, 1, HOUR_MS)
  return { share, minAttempts, windowMs, holdMs }
}

function checkedRetries(budget: RetryAllowance): RetrySettings {
  checkOptions("'retries' of a budget", budget, RETRIES)
  const { share, windowMs = 60_000, floor = 1, dependency } = budget
  if (!(share > 0 && share <= 1))
    throw new OptionError('share', `'retries.share' must be above 0 and at most 1, such as 0.2, got ${quoted(share)}.`)
  checkRange('retries.windowMs', windowMs, BUCKET_MS, HOUR_MS)
  // Without any, retries would wait for ever once no new work comes.
  if (!(typeof floor === 'number' && (floor * windowMs) / 1000 >= 1 && floor <= MAX_FLOOR)) {
    const least = `at least one retry per window, which is ${1000 / windowMs}`
    throw new OptionError(
      'floor',
      `'retries.floor' is a number of retries per second: ${least}, up to ${MAX_FLOOR}, got ${quoted(floor)}.`,
    )
  }
  if (dependency === undefined) return { share, windowMs, floor }
  checkName('dependency', dependency)
  if (dependency === '')
    throw new OptionError('dependency', "'retries.dependency' is the name of a service, such as 'payments-api'.")
  return { share, windowMs, floor, dependency }
}

function checkedCost(budget: CostBudget): CostSettings {
  checkOptions("'cost' of a budget", budget, COST)
  const { amounts, windowMs = DAY_MS } = budget
  checkCost('cost', amounts)
  const invalid = Object.values(amounts).find(amount => amount < MIN_AMOUNT || amount > MAX_AMOUNT)
  if (invalid !== undefined || Object.keys(amounts).length === 0) {
    const form = `amounts from ${MIN_AMOUNT} to ${MAX_AMOUNT}, such as { tokens: 2e6 }`
    throw new OptionError('cost', `'cost' of a budget needs ${form}, got ${quoted(invalid ?? 'none')}.`)
  }
  checkRange('cost.windowMs', windowMs, MINUTE_MS, 31 * DAY_MS)
  return { amounts, windowMs }
}

function checkRange(name: string, value: unknown, min: number, max: number): void {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return
  const option = name.slice(name.indexOf('.') + 1)
  throw new OptionError(option, `'${name}' must be a whole number from ${min} to ${max}, got ${quoted(value)}.`)
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
