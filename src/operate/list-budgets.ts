import type { Store } from '../store/index.js'
import {
  type Cost,
  contractOf,
  type FailureBudget,
  type GateCause,
  type GateState,
  type RetryRecord,
} from '../store/internal.js'
import { roundedCost } from './cost.js'
import { isoOrNull } from './task-view.js'

/** A budget as plain JSON. Times are ISO 8601 text in UTC. */
export interface BudgetView {
  /** The kind of task. */
  readonly kind: string
  /** The category; `null`: all of them. */
  readonly category: string | null
  /** The share of attempts that may fail, and how it is judged. */
  readonly failures: Required<FailureBudget> | null
  /** How many retries may start, and how many have; `null` if their number is not limited. */
  readonly retries: {
    /** Retries per first attempt. */
    readonly share: number
    /** First attempts and retries count for this long. */
    readonly windowMs: number
    /** Retries per second that are let through whatever the share. */
    readonly floor: number
    /** The service that it shares its allowance for with other budgets; `null` if it stands alone. */
    readonly dependency: string | null
    /** First attempts within the window; with a dependency, those of all its budgets. */
    readonly first: number
    /** Retries that were let through within the window; with a dependency, those of all its budgets. */
    readonly retried: number
    /** Retries that are due, and held until the budget lets them through. Counted up to 10 000. */
    readonly held: number
    /** When the next retries are let through, at the latest; `null` if some may pass now. */
    readonly nextAt: string | null
  } | null
  /** The limits on cost, and the cost so far; `null` if cost is not limited. */
  readonly cost: {
    /** The amounts that they may spend within a window, by bucket. */
    readonly amounts: Cost
    /** How long a window is. */
    readonly windowMs: number
    /** Their cost within the window. */
    readonly used: Cost
    /** How many more tasks may start beside those that run. */
    readonly left: number
    /** Whether none starts before the next window. */
    readonly isSpent: boolean
    /** The end of the window. */
    readonly until: string
  } | null
  /** Attempts within the window, and how many of them failed. */
  readonly recent: { readonly attempts: number; readonly failed: number }
  /** Whether its tasks start. */
  readonly gate: {
    readonly state: GateState
    /** When it opened; `null` if it is closed. */
    readonly since: string | null
    /** The end of its hold; `null` if it is closed. */
    readonly until: string | null
    /** How many holds there were in a row. */
    readonly holds: number
    /** The figures that opened it last; `null` if it is closed. */
    readonly cause: GateCause | null
  }
}

/** Lists budgets with their gates and their retries, by kind and category. */
export async function listBudgets(store: Store): Promise<BudgetView[]> {
  const budgets = await contractOf(store).budgets.list()
  return budgets.map(
    ({ kind, category, failures, retries, cost, recent, gate: { state, since, until, holds, cause } }) => ({
      kind,
      category: category ?? null,
      failures: failures ?? null,
      retries: retries === undefined ? null : retriesView(retries),
      cost: cost === undefined ? null : { ...cost, used: roundedCost(cost.used), until: iso(cost.until) },
      recent,
      gate: { state, since: isoOrNull(since), until: isoOrNull(until), holds, cause: cause ?? null },
    }),
  )
}

function iso(at: number): string {
  return new Date(at).toISOString()
}

function retriesView({ share, windowMs, floor, dependency, first, retried, held, nextAt }: RetryRecord) {
  return { share, windowMs, floor, dependency: dependency ?? null, first, retried, held, nextAt: isoOrNull(nextAt) }
}
