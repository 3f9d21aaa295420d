import { FinalError, RedriveError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { BudgetStop, RunStatus } from '../store/index.js'

/** A run was stopped by its failure budget. Its items are kept: `resume()` goes on, and counts afresh. */
export class FailureBudgetExceededError extends RedriveError {
  static {
    FailureBudgetExceededError.prototype.name = 'FailureBudgetExceededError'
  }

  constructor(
    readonly run: string,
    /** The figures at the check. The counts afterwards may be higher by what was running. */
    readonly stop: BudgetStop,
  ) {
    const { stage, processed, dead, rate, budget, cause } = stop
    const where = stage === undefined ? '' : ` in the stage '${stage}'`
    const why =
      cause === undefined ? '' : `, ${percent(cause.share)} of them ${quoted(cause.errorCode)} in '${cause.stage}'`
    super(
      'failure_budget_exceeded',
      `The run '${run}' stopped at ${percent(rate)} dead${where}${why}: ${dead} of ${processed}, and its failure budget is ${percent(budget)}. Fix the cause, then resume it.`,
    )
  }
}

/** A run whose source was not read to its end: the source threw, or its reader went away. */
export class RunInterruptedError extends RedriveError {
  static {
    RunInterruptedError.prototype.name = 'RunInterruptedError'
  }

  constructor(
    readonly run: string,
    /** The number of items that were read, and are safe. */
    readonly position: number,
    problem: string | undefined,
    options?: ErrorOptions,
  ) {
    super(
      'run_interrupted',
      `The source of the run '${run}' was read up to item ${position}, and no further: ${problem ?? 'its reader is gone'}. Resume the run with its source to read on.`,
      options,
    )
  }
}

/** A run that failed, was cancelled, or is paused. */
export class RunNotCompletedError extends RedriveError {
  static {
    RunNotCompletedError.prototype.name = 'RunNotCompletedError'
  }

  constructor(
    readonly run: string,
    readonly status: RunStatus,
    readonly successRate: number,
  ) {
    super(
      'run_not_completed',
      status === 'failed'
        ? `The run '${run}' failed: ${percent(successRate)} of its items succeeded or were skipped.`
        : `The run '${run}' is ${status}.`,
    )
  }
}

/** A stage returned something that cannot be passed on: nothing, too much, or what JSON cannot hold. */
export class StageValueError extends FinalError {
  static {
    StageValueError.prototype.name = 'StageValueError'
  }

  constructor(
    readonly stage: string,
    readonly item: string,
    problem: string,
  ) {
    super(`The stage '${stage}' returned a value for the item ${quoted(item)} that cannot be passed on: ${problem}`, {
      code: 'stage_value_invalid',
    })
  }
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))} %`
}
