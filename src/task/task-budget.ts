import { toMs } from '../engine/internal.js'
import { type Duration, OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions } from '../policy/internal.js'
import { type Budget, type Cost, checkedBudget } from '../store/internal.js'

/**
 * Budgets over all tasks of a kind, whatever their lanes and workers: of failures, of retries, of cost, or of several.
 *
 * @inline
 */
export interface TaskBudget {
  /** Stops the kind on all machines while too large a share of its attempts fails for reasons that are not the payload's. */
  readonly failures?: TaskFailureBudget | undefined
  /** Bounds the retries of the kind on all machines, so that they do not multiply the load of a service in trouble. */
  readonly retries?: TaskRetryBudget | undefined
  /**
   * Holds the kind on all machines until the next window before its attempts have spent more than this, as `used()` says:
   * `{ tokens: 2e6 }`. Before the first attempt has told, one runs at a time.
   */
  readonly cost?: Cost | undefined
  /** How long a window of `cost` is. Windows follow each other in UTC, so a day begins at midnight UTC. Default one day. */
  readonly costWindow?: Duration | undefined
}

/** The share of recent attempts that may fail. */
export interface TaskFailureBudget {
  /** The share that may fail: above 0 and below 1. */
  readonly share: number
  /** With fewer attempts in the window, nothing is judged. Default 20. */
  readonly minAttempts?: number | undefined
  /** The attempts that count: those within this time. Default one minute. */
  readonly window?: Duration | undefined
  /** How long the kind stops at first. Each time that a probe fails the hold doubles, up to ten minutes. Default 30 s. */
  readonly hold?: Duration | undefined
}

/** The number of retries within a window. */
export interface TaskRetryBudget {
  /** Retries per first attempt: with 0.2, ten first attempts let two retries through. Above 0, at most 1. */
  readonly share: number
  /** First attempts and retries count for this long. Default one minute. */
  readonly window?: Duration | undefined
  /** Retries per second that are let through whatever the share, so that none waits for ever. Default 1. */
  readonly floor?: number | undefined
  /**
   * The service that the task calls. Kinds that name the same one share one budget: their first attempts earn retries
   * together, and their retries are charged together. The figures that were declared or set last hold for all of them.
   */
  readonly dependency?: string | undefined
}

const TASK_BUDGET: KnownOptions<TaskBudget> = {
  failures: 'object',
  retries: 'object',
  cost: 'object',
  costWindow: '',
}
const FAILURES: KnownOptions<TaskFailureBudget> = { share: '', minAttempts: '', window: '', hold: '' }
const RETRIES: KnownOptions<TaskRetryBudget> = { share: '', window: '', floor: '', dependency: '' }

/** The budget of a task as a store takes it: declared by code, so that one that an operator sets later holds. */
export function toBudget(kind: string, budget: TaskBudget): Budget {
  checkOptions(`'budget' of the task '${kind}'`, budget, TASK_BUDGET)
  const { failures, retries, cost, costWindow } = budget
  if (cost === undefined && costWindow !== undefined)
    throw new OptionError(
      'budget',
      `'budget.costWindow' of the task '${kind}' needs 'budget.cost', such as { tokens: 2e6 }.`,
    )
  const windowMs = costWindow === undefined ? {} : { windowMs: toMs('budget.costWindow', costWindow) }
  const given = {
    ...(failures !== undefined && { failures: toFailures(kind, failures) }),
    ...(retries !== undefined && { retries: toRetries(kind, retries) }),
    ...(cost !== undefined && { cost: { amounts: cost, ...windowMs } }),
  }
  return { ...checkedBudget(given), isDeclared: true }
}

function toFailures(kind: string, budget: TaskFailureBudget) {
  checkOptions(`'budget.failures' of the task '${kind}'`, budget, FAILURES)
  const { share, minAttempts, window, hold } = budget
  return {
    share,
    ...(minAttempts !== undefined && { minAttempts }),
    ...(window !== undefined && { windowMs: toMs('budget.failures.window', window) }),
    ...(hold !== undefined && { holdMs: toMs('budget.failures.hold', hold) }),
  }
}

function toRetries(kind: string, budget: TaskRetryBudget) {
  checkOptions(`'budget.retries' of the task '${kind}'`, budget, RETRIES)
  const { share, window, floor, dependency } = budget
  return {
    share,
    ...(window !== undefined && { windowMs: toMs('budget.retries.window', window) }),
    ...(floor !== undefined && { floor }),
    ...(dependency !== undefined && { dependency }),
  }
}
