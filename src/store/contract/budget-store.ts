import type { By } from './ledger.js'
import type { Cost } from './task.js'

/**
 * Budgets over all processes, by kind, or by kind and category.
 *
 * A **failure budget** stops a kind that fails too often for reasons that are not the payload's, so that an outage does not
 * spend the attempts of everybody. It has a gate, which works as a circuit breaker does:
 *
 *            too many recent attempts failed            the hold is over
 *   closed ───────────────────────────────────► open ───────────────────► half open
 *      ▲                                         ▲                           │  │
 *      │                                         └── too many of these fail ─┘  │
 *      └──────────────────────────── enough succeed ────────────────────────────┘
 *
 * - **closed**: tasks are claimed as usual. Settlements count attempts; those that contain failures judge.
 * - **open**: no task of the kind is claimed, on any machine. Tasks that were running when it opened may still spend an
 *   attempt; nothing else does. Each hold in a row is twice as long as the one before, up to ten minutes.
 * - **half open**: one task is claimed, as a probe. Each success lets two more start, so the number doubles with every
 *   round, until the gate is closed: once 256 may run at once, or with `minAttempts` successes and a window after the hold,
 *   whichever is first. As soon as the share of failures exceeds the budget, it opens again.
 *
 * Failures that count are those with a `retryable` verdict. A `final` one is the payload's, a `rate_limited` one holds its
 * lane by itself, and a loss is the worker's: these are no answer, neither for the budget nor from a probe.
 *
 * Each failure budget stands by itself: that of a kind counts all its categories, and a task passes every gate that covers
 * it.
 *
 * A **retry budget** bounds the retries of a kind, so that they do not multiply the load of a service that is in trouble.
 * A retry passes if, with it, the retries of the last window are at most a share of the first attempts that ended in it; or
 * evenly, up to a number per second, if that is more. It waits until it is due, and then until the budget lets it pass:
 * those that were due first come first. A claim lets them pass, in the one place where due tasks become ready; in an ordered
 * lane all others wait behind one that is held.
 *
 * - **First attempts earn**: those that end with the number 1, whatever their end, except that a rate limit or a handler
 *   that asks for later is no end. A redriven task starts with attempt 1 again: it is not charged, and earns.
 * - **Retries are charged**: tasks that wait after a failed attempt. Deferrals, losses, tasks that were handed back and tasks
 *   that are redriven are not: a rate limit holds its lane by itself, and the others say nothing about the service.
 * - A task belongs to one retry budget: that of its kind and category if there is one, otherwise that of its kind.
 * - Retry budgets that name the same **dependency** are one: the first attempts of all their kinds earn together, and their
 *   retries are charged together, so that a service sees the same bound however many kinds call it.
 *
 * A **cost budget** holds a kind until the next window before it has spent more than an amount, as `used()` says. A task starts
 * if there is room for it beside those that run, each taken to spend the mean of the attempts of this window and the last. So
 * what is spent exceeds the amount at most by how much the tasks that run at the end spend beyond that mean.
 */

/** The tasks that a budget covers: those of a kind, or of a kind and category. An empty category means that there is none. */
export interface BudgetScope {
  /** The name given to `defineTask`. */
  readonly kind: string
  /** Default: all categories of the kind, together. */
  readonly category?: string | undefined
}

/** How much of a kind's work may fail, how much of it may be retried, and what it may cost. One of them at least. */
export interface Budget {
  /** Stops the kind when too large a share of its attempts fails. */
  readonly failures?: FailureBudget | undefined
  /** Bounds how many of its retries start. */
  readonly retries?: RetryAllowance | undefined
  /** Holds the kind until the next window before it has spent too much. */
  readonly cost?: CostBudget | undefined
  /**
   * Code declares this budget whenever it starts. A declaration changes nothing if it is the same as the last one for this
   * scope: a budget that an operator has set or lifted since then holds until the code declares another.
   */
  readonly isDeclared?: boolean | undefined
}

/** The share of recent attempts that may fail. */
export interface FailureBudget {
  /** The gate opens when a larger share than this fails: above 0 and below 1. */
  readonly share: number
  /** With fewer attempts in the window, nothing is judged. Default 20. */
  readonly minAttempts?: number
  /** Recent means within this time, counted in steps of ten seconds: up to an hour. Default one minute. */
  readonly windowMs?: number
  /** The first hold. Default 30 s. */
  readonly holdMs?: number
}

/** The number of retries within a window. */
export interface RetryAllowance {
  /** Retries per first attempt: with 0.2, ten first attempts let two retries through. Above 0, at most 1. */
  readonly share: number
  /** First attempts and retries count for this long: from ten seconds to an hour. Default one minute. */
  readonly windowMs?: number
  /**
   * Retries per second that are let through whatever the share, evenly, so that none waits for ever. In any window no more
   * pass than it is worth, unless the share lets more pass. Default 1.
   */
  readonly floor?: number
  /**
   * The service that the tasks call. Budgets that name the same one share their allowance, whatever their kinds: the share,
   * window and floor that were set last hold for all of them.
   */
  readonly dependency?: string
}

/** The limits on the cost of attempts within a window. */
export interface CostBudget {
  /** By bucket, as `used()` names them. */
  readonly amounts: Cost
  /** How long a window is: from one minute to 31 days. Windows follow each other from 1970 on, in UTC. Default one day. */
  readonly windowMs?: number
}

/** A cost budget as it stands. Times are milliseconds on the store's clock. */
export interface CostRecord extends Required<CostBudget> {
  /** The cost of attempts within the window. */
  readonly used: Cost
  /** How many more tasks may start beside those that run. */
  readonly left: number
  /** Whether it has no room for an attempt: none starts before the next window. */
  readonly isSpent: boolean
  /** The end of the window. */
  readonly until: number
}

/** Retries under a budget. Times are milliseconds on the store's clock. */
export interface RetryRecord extends Required<Omit<RetryAllowance, 'dependency'>>, Pick<RetryAllowance, 'dependency'> {
  /** First attempts within the window; with a dependency, those of all budgets that name it. */
  readonly first: number
  /** Retries that were let through within the window; with a dependency, those of all budgets that name it. */
  readonly retried: number
  /** Retries that are due, and held by the budget until it lets them through. Counted up to 10 000. */
  readonly held: number
  /** When the next retries are let through if no first attempt ends until then; `undefined` if some may pass now. */
  readonly nextAt: number | undefined
}

/** `closed`: tasks start. `open`: none starts. `half_open`: a growing number starts, to find out. */
export type GateState = 'closed' | 'open' | 'half_open'

/** The figures that opened a gate. */
export interface GateCause {
  /** The error code of the commonest failure. */
  readonly code: string
  /** The group of the commonest failure, if it has one. */
  readonly group?: string
  /** Attempts that were counted. */
  readonly attempts: number
  /** How many of them failed. */
  readonly failed: number
}

/** A gate as it stands. Times are milliseconds on the store's clock. */
export interface GateRecord {
  /** Whether tasks start. */
  readonly state: GateState
  /** When it opened first; `undefined` if it is closed. */
  readonly since: number | undefined
  /** The end of the present or last hold; `undefined` if it is closed. */
  readonly until: number | undefined
  /** How many holds there were in a row. */
  readonly holds: number
  /** The failure that opened it last; `undefined` if it is closed. */
  readonly cause: GateCause | undefined
}

/** A budget with its gate. */
export interface BudgetRecord extends BudgetScope {
  /** Its failure budget, with the defaults filled in. */
  readonly failures: Required<FailureBudget> | undefined
  /** Its retry budget, with the defaults filled in and its figures. */
  readonly retries: RetryRecord | undefined
  /** Its cost budget, with the defaults filled in and its figures. */
  readonly cost: CostRecord | undefined
  /** Its gate. */
  readonly gate: GateRecord
  /** Attempts within the window that count, and how many of them failed. */
  readonly recent: { readonly attempts: number; readonly failed: number }
}

/** A gate has opened, has opened again after a probe, or has closed. */
export interface GateChange extends BudgetScope {
  /** The gate as it stands now. */
  readonly gate: GateRecord
}

/** Sets, lifts and lists budgets, and closes their gates. Each verb is one transaction. */
export interface BudgetStore {
  /**
   * Sets the budget of a scope in place of the one before. A failure budget that differs from that begins with a closed
   * gate and counts afresh. Retries that wait already are charged to a new retry budget too. With `by`, appends an audit record in the same transaction.
   */
  set(scope: BudgetScope, budget: Budget, by?: By): Promise<void>
  /**
   * Removes the budget of exactly this scope, and its gate with it: nothing is held by it any more. Returns whether there was one. With `by`, appends an
   * audit record in the same transaction.
   */
  lift(scope: BudgetScope, by?: By): Promise<boolean>
  /**
   * Closes the gate of exactly this scope now, and keeps the budget, which counts afresh. Returns whether the gate was open.
   * With `by`, appends an audit record in the same transaction.
   */
  close(scope: BudgetScope, by?: By): Promise<boolean>
  /** All budgets, by kind and category. */
  list(): Promise<BudgetRecord[]>
}
