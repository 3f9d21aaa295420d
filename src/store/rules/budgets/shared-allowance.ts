import type { BudgetScope } from '../../contract/budget-store.js'
import type { Lane } from '../../contract/lane.js'
import type { BudgetSettings, RetrySettings } from './check-budget.js'
import { isCovering } from './claim-gates.js'
import {
  floorAfter,
  nextAsk,
  type RetryBucket,
  type RetryFigures,
  retriesLeft,
  retryFigures,
  withRetries,
} from './retry-allowance.js'

/** A budget as far as its retries go. Those that name the same dependency share an allowance. */
interface SharingBudget {
  readonly settings: BudgetSettings
  readonly retries: readonly RetryBucket[]
}

/** The retry budget of a lane: that of its category, or else that of its kind. */
export function retryBudgetOf<T extends { readonly scope: BudgetScope; readonly settings: BudgetSettings }>(
  budgets: Iterable<T>,
  lane: Lane,
): T | undefined {
  let found: T | undefined
  for (const budget of budgets) {
    if (budget.settings.retries === undefined || !isCovering(budget.scope, lane)) continue
    if (found === undefined || budget.scope.category !== undefined) found = budget
  }
  return found
}

/** Budgets that share an allowance after they have let retries through, `counts` of them each. */
export function afterRetries<T extends SharingBudget>(
  sharing: readonly T[],
  counts: readonly number[],
  now: number,
): readonly T[] {
  const passed = counts.reduce((sum, count) => sum + count, 0)
  const found = allowanceOf(sharing, now)
  if (found === undefined || passed === 0) return sharing
  const { settings, figures } = found
  const floorAt = floorAfter(settings, figures.floorAt, passed, now)
  return sharing.map((budget, n) => {
    const retried = counts[n] ?? 0
    if (retried === 0) return budget
    return { ...budget, retries: withRetries(budget.retries, { retried, floorAt }, settings.windowMs, now) }
  })
}

/** Budgets of retries, those of one dependency together: they share an allowance. */
export function byAllowance<T extends Pick<SharingBudget, 'settings'>>(budgets: Iterable<T>): T[][] {
  const shared = new Map<string, T[]>()
  const alone: T[][] = []
  for (const budget of budgets) {
    const { retries } = budget.settings
    if (retries?.dependency === undefined) {
      if (retries !== undefined) alone.push([budget])
      continue
    }
    const others = shared.get(retries.dependency)
    if (others === undefined) shared.set(retries.dependency, [budget])
    else others.push(budget)
  }
  return [...alone, ...shared.values()]
}

/** How many retries budgets that share an allowance let through now, together. */
export function retriesAllowed(sharing: readonly SharingBudget[], now: number): number {
  const found = allowanceOf(sharing, now)
  return found === undefined ? 0 : retriesLeft(found.settings, found.figures, now)
}

/** When a claim should ask for retries again that these budgets hold. */
export function nextRetriesAt(sharing: readonly SharingBudget[], now: number): number {
  const found = allowanceOf(sharing, now)
  return found === undefined ? Infinity : nextAsk(found.settings, found.figures.floorAt, now)
}

/** The settings and figures of budgets that share an allowance: all of them have the same settings. */
function allowanceOf(
  sharing: readonly SharingBudget[],
  now: number,
): { readonly settings: RetrySettings; readonly figures: RetryFigures } | undefined {
  const settings = sharing[0]?.settings.retries
  return settings && { settings, figures: retryFigures(bucketsOf(sharing), settings.windowMs, now) }
}

/** What budgets that share an allowance have counted. */
export function bucketsOf(budgets: readonly Pick<SharingBudget, 'retries'>[]): readonly RetryBucket[] {
  const [first, ...others] = budgets
  return others.length === 0 ? (first?.retries ?? []) : budgets.flatMap(({ retries }) => retries)
}
