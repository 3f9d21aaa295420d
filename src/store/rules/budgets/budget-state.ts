import { canonicalJson } from '../../../policy/index.js'
import type { BudgetRecord, BudgetScope, GateChange } from '../../contract/budget-store.js'
import type { Lane } from '../../contract/lane.js'
import { type AttemptCounts, counted, type Ended, NO_COUNTS, recentOf } from './attempt-counts.js'
import type { BudgetSettings, RetrySettings } from './check-budget.js'
import { isCovering } from './claim-gates.js'
import { closed, type Gate, gateRecord, judged, NEW_GATE, NO_PROBES } from './gate.js'
import {
  floorAfter,
  nextAsk,
  type RetryBucket,
  type RetryFigures,
  retriesLeft,
  retryFigures,
  retryRecord,
  withFreshFloor,
  withRetries,
} from './retry-allowance.js'

/** A budget with its gate and its counts, for stores with a single writer. */
export interface BudgetState {
  readonly scope: BudgetScope
  readonly settings: BudgetSettings
  readonly gate: Gate
  readonly counts: AttemptCounts
  /** First attempts and retries, oldest first. */
  readonly retries: readonly RetryBucket[]
}

export function newBudget(scope: BudgetScope, settings: BudgetSettings): BudgetState {
  return { scope, settings, gate: NEW_GATE, counts: NO_COUNTS, retries: [] }
}

/**
 * The budget with other settings. A failure budget that differs begins with a closed gate and counts afresh; the floor of a
 * retry budget that differs begins anew.
 */
export function withSettings(budget: BudgetState, settings: BudgetSettings): BudgetState {
  const isSame = (part: keyof BudgetSettings) =>
    canonicalJson(budget.settings[part] ?? null) === canonicalJson(settings[part] ?? null)
  return {
    ...budget,
    settings,
    ...(!isSame('failures') && { gate: closed(budget.gate), counts: NO_COUNTS }),
    ...(!isSame('retries') && { retries: withFreshFloor(budget.retries) }),
  }
}

/** The retry budget of a lane: that of its category, or else that of its kind. */
export function retryBudgetOf<T extends Pick<BudgetState, 'scope' | 'settings'>>(
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
export function afterRetries(
  sharing: readonly BudgetState[],
  counts: readonly number[],
  now: number,
): readonly BudgetState[] {
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
export function byAllowance<T extends Pick<BudgetState, 'settings'>>(budgets: Iterable<T>): T[][] {
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
export function retriesAllowed(sharing: readonly BudgetState[], now: number): number {
  const found = allowanceOf(sharing, now)
  return found === undefined ? 0 : retriesLeft(found.settings, found.figures, now)
}

/** When a claim should ask for retries again that these budgets hold. */
export function nextRetriesAt(sharing: readonly BudgetState[], now: number): number {
  const found = allowanceOf(sharing, now)
  return found === undefined ? Infinity : nextAsk(found.settings, found.figures.floorAt, now)
}

/** The settings and figures of budgets that share an allowance: all of them have the same settings. */
function allowanceOf(
  sharing: readonly BudgetState[],
  now: number,
): { readonly settings: RetrySettings; readonly figures: RetryFigures } | undefined {
  const settings = sharing[0]?.settings.retries
  return settings && { settings, figures: retryFigures(bucketsOf(sharing), settings.windowMs, now) }
}

/** The settings of a budget whose dependency has got others; the same object if it has another dependency, or none. */
export function withRetrySettings(settings: BudgetSettings, { retries }: BudgetSettings): BudgetSettings {
  const isShared = retries?.dependency !== undefined && retries.dependency === settings.retries?.dependency
  return isShared ? { ...settings, retries } : settings
}

function bucketsOf(budgets: readonly BudgetState[]): readonly RetryBucket[] {
  const [first, ...others] = budgets
  return others.length === 0 ? (first?.retries ?? []) : budgets.flatMap(({ retries }) => retries)
}

/** The budget after tasks have ended. Judged where some have failed, and while its gate is open. */
export function afterEnds(before: BudgetState, ends: readonly Ended[], now: number): BudgetState {
  const budget = withFirst(before, ends, now)
  const { failures } = budget.settings
  if (failures === undefined) return budget
  const counts = ends.reduce((counts, ended) => counted(counts, ended, failures.windowMs, now), budget.counts)
  const isJudged = budget.gate.since !== undefined || ends.some(({ answer }) => answer === 'failed')
  if (!isJudged) return { ...budget, counts }
  const recent = recentOf(counts, failures.windowMs, now)
  const gate = judged(failures, budget.gate, { recent, probes: counts.probes }, now)
  if (gate === budget.gate) return { ...budget, counts }
  // A gate that has closed counts afresh.
  const buckets = gate.since === undefined ? [] : counts.buckets
  return { ...budget, gate, counts: { buckets, probes: NO_PROBES } }
}

/** The budget after first attempts have ended. */
function withFirst(budget: BudgetState, ends: readonly Ended[], now: number): BudgetState {
  const { retries } = budget.settings
  const first = ends.reduce((sum, ended) => sum + ended.first, 0)
  if (retries === undefined || first === 0) return budget
  return { ...budget, retries: withRetries(budget.retries, { first }, retries.windowMs, now) }
}

/** The budget after its gate was closed by hand: it counts afresh. The same object if the gate is closed already. */
export function withClosedGate(budget: BudgetState): BudgetState {
  return budget.gate.since === undefined ? budget : { ...budget, gate: closed(budget.gate), counts: NO_COUNTS }
}

/** How the gate has changed; `undefined` if it is as it was, or has only let tasks through. */
export function gateChange(before: Gate, { scope, gate }: BudgetState, now: number): GateChange | undefined {
  const isSame = before.round === gate.round && before.since === gate.since
  return isSame ? undefined : { ...scope, gate: gateRecord(gate, now) }
}

/** The budget as it is listed, among all that there are. `held` is the number of its retries that are due. */
export function budgetRecord(budget: BudgetState, all: readonly BudgetState[], held: number, now: number) {
  const { scope, settings, gate, counts } = budget
  const sharing = byAllowance(all).find(budgets => budgets.includes(budget)) ?? []
  const { attempts, failed } = recentOf(counts, settings.failures?.windowMs ?? 0, now)
  const record: BudgetRecord = {
    ...scope,
    failures: settings.failures,
    retries: settings.retries && retryRecord(settings.retries, bucketsOf(sharing), held, now),
    gate: gateRecord(gate, now),
    recent: { attempts, failed },
  }
  return record
}

/** The order of lists. */
export function byScope(a: BudgetScope, b: BudgetScope): number {
  return compare(a.kind, b.kind) || compare(a.category ?? '', b.category ?? '')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
