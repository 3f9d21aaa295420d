import type { Duration } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import type { Budget } from '../store/index.js'
import { checkedBudget } from '../store/internal.js'
import { toMs } from './to-ms.js'

/** A budget over all tasks of a kind, whatever their lanes and workers. */
export interface TaskBudget {
  /** Stops the kind on all machines while too large a share of its attempts fails for reasons that are not the payload's. */
  readonly failures: {
    /** The share that may fail: above 0 and below 1. */
    readonly share: number
    /** With fewer attempts in the window, nothing is judged. Default 20. */
    readonly minAttempts?: number | undefined
    /** The attempts that count: those within this time. Default one minute. */
    readonly window?: Duration | undefined
    /** How long the kind stops at first. Each time that a probe fails the hold doubles, up to ten minutes. Default 30 s. */
    readonly hold?: Duration | undefined
  }
}

const TASK_BUDGET: KnownOptions<TaskBudget> = { failures: 'object' }
const FAILURES: KnownOptions<TaskBudget['failures']> = { share: '', minAttempts: '', window: '', hold: '' }

/** The budget of a task as a store takes it: declared by code, so that one that an operator sets later holds. */
export function toBudget(kind: string, budget: TaskBudget): Budget {
  checkOptions(`'budget' of the task '${kind}'`, budget, TASK_BUDGET)
  checkOptions(`'budget.failures' of the task '${kind}'`, budget.failures ?? {}, FAILURES)
  const { share, minAttempts, window, hold } = budget.failures ?? {}
  const failures = {
    share,
    ...(minAttempts !== undefined && { minAttempts }),
    ...(window !== undefined && { windowMs: toMs('budget.failures.window', window) }),
    ...(hold !== undefined && { holdMs: toMs('budget.failures.hold', hold) }),
  }
  return { ...checkedBudget({ failures }), isDeclared: true }
}
