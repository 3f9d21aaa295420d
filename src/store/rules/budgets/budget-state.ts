import { canonicalJson } from '../../../policy/index.js'
import type { BudgetRecord, BudgetScope } from '../../contract/budget-store.js'
import { type AttemptCounts, counted, type Ended, NO_COUNTS, recentOf } from './attempt-counts.js'
import { type BudgetSettings, settingsText } from './check-budget.js'
import { afterSpent, costLeft, costRecord, type SpentWindow, spentNow, windowOf } from './cost-gate.js'
import {
  closed,
  type Gate,
  gateRecord,
  judged,
  NEW_GATE,
  NO_PROBES,
  nextLook,
  type Probes,
  type Recent,
} from './gate.js'
import { type RetryBucket, retryRecord, withFreshFloor, withRetries } from './retry-allowance.js'
import { bucketsOf, byAllowance } from './shared-allowance.js'

/** A budget as every store keeps it. */
export interface KeptBudget {
  readonly id: number
  readonly scope: BudgetScope
  readonly settings: BudgetSettings
  readonly gate: Gate
}

/** A budget to be kept, with what the store forgets of it. */
export interface BudgetChange extends Omit<KeptBudget, 'id'> {
  /** `undefined`: it is new. */
  readonly id: number | undefined
  /** The attempts that it has counted for its gate are forgotten. */
  readonly countsAfresh: boolean
  /** The floor of its retries begins anew. */
  readonly hasFreshFloor: boolean
  /** What it has spent is forgotten: its windows are others. */
  readonly hasFreshWindows: boolean
}

/** A budget with the figures by which its gate is judged. */
export interface CountedBudget extends KeptBudget {
  readonly recent: Recent
  readonly probes: Probes
}

/** A budget with all its figures. */
export interface ListedBudget extends CountedBudget {
  /** First attempts and retries, oldest first. */
  readonly retries: readonly RetryBucket[]
  /** How many retries are due, and held. */
  readonly held: number
  /** What attempts have spent. */
  readonly spent: readonly SpentWindow[]
  /** How many of its tasks run. Asked only of cost budgets. */
  readonly running: number
}

/** A budget with its counts, for stores with a single writer. */
export interface BudgetState extends KeptBudget, Pick<ListedBudget, 'retries' | 'spent'> {
  readonly counts: AttemptCounts
}

/** The budget of exactly this scope. */
export function budgetOf<T extends KeptBudget>(all: readonly T[], { kind, category }: BudgetScope): T | undefined {
  return all.find(({ scope }) => scope.kind === kind && scope.category === category)
}

/**
 * The budgets that change when a scope gets these settings: its own, and those that share its dependency. A failure budget
 * that differs begins with a closed gate and counts afresh; the floor of a retry budget that differs begins anew.
 */
export function changesOf(all: readonly KeptBudget[], scope: BudgetScope, settings: BudgetSettings): BudgetChange[] {
  const { kind, category } = scope
  const fresh = { id: undefined, scope: { kind, ...(category !== undefined && { category }) }, gate: NEW_GATE }
  const own = budgetOf(all, scope) ?? { ...fresh, settings: {} }
  const { retries } = settings
  const sharing = all.filter(
    other => other !== own && retries?.dependency !== undefined && dependencyOf(other) === retries.dependency,
  )
  const changed = sharing.map(other => withSettings(other, { ...other.settings, ...(retries && { retries }) }))
  const isOther = settingsText(own.settings) !== settingsText(settings)
  return isOther ? [withSettings(own, settings), ...changed] : []
}

function withSettings(
  budget: Omit<BudgetChange, 'countsAfresh' | 'hasFreshFloor' | 'hasFreshWindows'>,
  settings: BudgetSettings,
): BudgetChange {
  const isSame = (part: keyof BudgetSettings) =>
    canonicalJson(budget.settings[part] ?? null) === canonicalJson(settings[part] ?? null)
  const countsAfresh = !isSame('failures')
  const gate = countsAfresh ? closed(budget.gate) : budget.gate
  const hasFreshWindows = budget.settings.cost?.windowMs !== settings.cost?.windowMs
  return { ...budget, settings, gate, countsAfresh, hasFreshFloor: !isSame('retries'), hasFreshWindows }
}

function dependencyOf({ settings }: KeptBudget): string | undefined {
  return settings.retries?.dependency
}

/** A budget after it was changed, with the counts that it keeps. `before` is absent if it is new. */
export function afterChange(
  { countsAfresh, hasFreshFloor, hasFreshWindows, scope, settings, gate }: BudgetChange,
  before: Pick<BudgetState, 'counts' | 'retries' | 'spent'> | undefined,
): Omit<BudgetState, 'id'> {
  const { counts, retries, spent } = before ?? { counts: NO_COUNTS, retries: [], spent: [] }
  return {
    scope,
    settings,
    gate,
    counts: countsAfresh ? NO_COUNTS : counts,
    retries: hasFreshFloor ? withFreshFloor(retries) : retries,
    spent: hasFreshWindows ? [] : spent,
  }
}

/** A budget after its gate was changed. One that has closed counts afresh, and one that has opened counts its probes. */
export function withGate<T extends BudgetState>(budget: T, gate: Gate): T {
  const buckets = gate.since === undefined ? [] : budget.counts.buckets
  return { ...budget, gate, counts: { buckets, probes: NO_PROBES } }
}

/** The figures of a budget, for stores with a single writer. */
export function countedBudget<T extends BudgetState>(budget: T, now: number): T & CountedBudget {
  const recent = recentOf(budget.counts, budget.settings.failures?.windowMs ?? 0, now)
  return { ...budget, recent, probes: budget.counts.probes }
}

/** Whether a budget has to be judged, for stores with a single writer. */
export function isToJudge({ gate, settings, counts }: BudgetState): boolean {
  const hasFailures = counts.buckets.some(({ failed }) => Object.keys(failed).length > 0)
  return settings.failures !== undefined && (gate.since !== undefined || hasFailures)
}

/** The gate of a budget after it was judged: the same object if nothing changes. */
export function judgedGate({ settings, gate, recent, probes }: CountedBudget, now: number): Gate {
  return settings.failures === undefined ? gate : judged(settings.failures, gate, { recent, probes }, now)
}

/** The budget after tasks have ended. */
export function afterEnds<T extends BudgetState>(budget: T, ends: readonly Ended[], now: number): T {
  const { failures, retries } = budget.settings
  const first = ends.reduce((sum, ended) => sum + ended.first, 0)
  return {
    ...budget,
    ...(failures && {
      counts: ends.reduce((counts, end) => counted(counts, end, failures.windowMs, now), budget.counts),
    }),
    ...(retries && first > 0 && { retries: withRetries(budget.retries, { first }, retries.windowMs, now) }),
  }
}

/** The budget after attempts have told what they spent. */
export function withSpent<T extends BudgetState>(budget: T, told: Omit<SpentWindow, 'at'>, now: number): T {
  const { cost } = budget.settings
  return cost === undefined ? budget : { ...budget, spent: afterSpent(budget.spent, told, cost.windowMs, now) }
}

/** How many tasks its cost lets start, for stores with a single writer. */
export function affordable({ settings: { cost }, spent }: BudgetState, running: () => number, now: number): number {
  return cost === undefined ? Infinity : costLeft(cost, spentNow(spent, cost.windowMs, now), running())
}

/** Whether a budget bounds how many tasks start: its gate is open, or their cost is limited. */
export function isGating({ gate, settings: { cost } }: KeptBudget): boolean {
  return gate.since !== undefined || cost !== undefined
}

/** Whether a budget keeps tasks back, as far as figures go that every lane has in common. */
export function isHolding(budget: BudgetState, now: number): boolean {
  return budget.gate.since !== undefined || affordable(budget, () => 0, now) === 0
}

/** When a budget that lets nothing start is worth asking again. */
export function nextStart({ gate, settings: { cost } }: KeptBudget, now: number): number {
  const probesAt = gate.since === undefined ? Infinity : nextLook(gate, now)
  // Tasks that still run ring when they end.
  return Math.min(probesAt, cost === undefined ? Infinity : windowOf(now, cost.windowMs) + cost.windowMs)
}

/** The budget as it is listed, among all that there are. */
export function budgetRecord(budget: ListedBudget, all: readonly ListedBudget[], now: number): BudgetRecord {
  const { scope, settings, gate, recent, held, spent, running } = budget
  const sharing = byAllowance(all).find(budgets => budgets.includes(budget)) ?? []
  return {
    ...scope,
    failures: settings.failures,
    retries: settings.retries && retryRecord(settings.retries, bucketsOf(sharing), held, now),
    cost: settings.cost && costRecord(settings.cost, spent, running, now),
    gate: gateRecord(gate, now),
    recent: { attempts: recent.attempts, failed: recent.failed },
  }
}

/** The order of lists. */
export function byScope(a: BudgetScope, b: BudgetScope): number {
  return compare(a.kind, b.kind) || compare(a.category ?? '', b.category ?? '')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
