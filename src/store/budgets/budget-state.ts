import type { BudgetRecord, BudgetScope, GateChange } from '../budget-store.js'
import { type AttemptCounts, counted, type Ended, NO_COUNTS, recentOf } from './attempt-counts.js'
import type { BudgetSettings } from './check-budget.js'
import { closed, type Gate, gateRecord, judged, NEW_GATE, NO_PROBES } from './gate.js'

/** A budget with its gate and its counts, for stores with a single writer. */
export interface BudgetState {
  readonly scope: BudgetScope
  readonly settings: BudgetSettings
  readonly gate: Gate
  readonly counts: AttemptCounts
}

export function newBudget(scope: BudgetScope, settings: BudgetSettings): BudgetState {
  return { scope, settings, gate: NEW_GATE, counts: NO_COUNTS }
}

/** The budget after tasks have ended. Judged where some have failed, and while its gate is open. */
export function afterEnds(budget: BudgetState, ends: readonly Ended[], now: number): BudgetState {
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

/** The budget after its gate was closed by hand: it counts afresh. The same object if the gate is closed already. */
export function withClosedGate(budget: BudgetState): BudgetState {
  return budget.gate.since === undefined ? budget : { ...budget, gate: closed(budget.gate), counts: NO_COUNTS }
}

/** How the gate has changed; `undefined` if it is as it was, or has only let tasks through. */
export function gateChange(before: Gate, { scope, gate }: BudgetState, now: number): GateChange | undefined {
  const isSame = before.round === gate.round && before.since === gate.since
  return isSame ? undefined : { ...scope, gate: gateRecord(gate, now) }
}

/** The budget as it is listed. */
export function budgetRecord({ scope, settings, gate, counts }: BudgetState, now: number): BudgetRecord {
  const { attempts, failed } = recentOf(counts, settings.failures?.windowMs ?? 0, now)
  return { ...scope, failures: settings.failures, gate: gateRecord(gate, now), recent: { attempts, failed } }
}

/** The order of lists. */
export function byScope(a: BudgetScope, b: BudgetScope): number {
  return compare(a.kind, b.kind) || compare(a.category ?? '', b.category ?? '')
}

function compare(a: string, b: string): number {
  return a < b ? -1 : Number(a > b)
}
