import { FinalError, RedriveError } from '../policy/index.js'
import { commandLine, quoted } from '../policy/internal.js'
import type { BudgetStop, RunStatus } from '../store/internal.js'

/** A run was stopped by its failure budget. Its items are kept: `resume()` goes on, and counts afresh. */
export class FailureBudgetExceededError extends RedriveError {
  static {
    FailureBudgetExceededError.prototype.name = 'FailureBudgetExceededError'
  }

  constructor(
    /** The id of the run. */
    readonly run: string,
    /** The figures at the check. The counts afterwards may be higher by what was running. */
    readonly stop: BudgetStop,
  ) {
    const { stage, processed, dead, rate, budget, cause } = stop
    const where = stage === undefined ? '' : ` in the stage '${stage}'`
    const why = cause === undefined ? '' : `, ${percent(cause.share)} of them ${nameOf(cause)}`
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
    /** The id of the run. */
    readonly run: string,
    /** The number of items that were read, and are safe. */
    readonly position: number,
    problem: string | undefined,
    options?: ErrorOptions,
  ) {
    // The problem may be a sentence of its own, and a source that has changed comes with its own advice.
    const why = problem?.replace(/\.$/, '') ?? 'its reader is gone'
    const advice = options?.cause instanceof SourceChangedError ? '' : ' Resume the run with its source to read on.'
    const what =
      position === 0
        ? `No item was read from the source of the run '${run}'`
        : `The source of the run '${run}' was read up to item ${position}, and no further`
    super('run_interrupted', `${what}: ${why}.${advice}`, options)
  }
}

/** A run that failed or was cancelled, or that this process stopped working on before its end. */
export class RunNotCompletedError extends RedriveError {
  static {
    RunNotCompletedError.prototype.name = 'RunNotCompletedError'
  }

  constructor(
    /** The id of the run. */
    readonly run: string,
    /** The status of the run. */
    readonly status: RunStatus,
    /** The share of succeeded and skipped items. */
    readonly successRate: number,
    /** The most frequent failure among its dead items, if it has failed. */
    readonly commonest: BudgetStop['cause'],
  ) {
    const isUnfinished = status === 'running' || status === 'paused'
    const why =
      commonest === undefined ? '' : `, and ${percent(commonest.share)} of its dead items died of ${nameOf(commonest)}`
    super(
      'run_not_completed',
      status === 'failed'
        ? `The run '${run}' failed: ${percent(successRate)} of its items succeeded or were skipped${why}. Its errors by stage: ${commandLine('pipeline report', {}, run)}`
        : `The run '${run}' is ${status}${isUnfinished ? ': this process stopped working on it. Resume it to go on' : ''}.`,
    )
  }
}

/** A run cannot be resumed: items of it are at a stage that its pipeline no longer has, and nothing would work on them. */
export class StageGoneError extends FinalError {
  static {
    StageGoneError.prototype.name = 'StageGoneError'
  }

  constructor(
    /** The id of the run. */
    readonly run: string,
    /** The name of the stage. */
    readonly stage: string,
    /** The number of its items that wait or run there. */
    readonly items: number,
    pipeline: string,
  ) {
    const found = items === 1 ? '1 item' : `${items} items`
    super(
      `The pipeline '${pipeline}' has no stage ${quoted(stage)}, and the run '${run}' has ${found} there. Move them to another stage, then resume it: ${commandLine('pipeline reprocess', { '--stage': stage, '--as': 'STAGE' }, run)}`,
      { code: 'stage_gone' },
    )
  }
}

/** A stage returned something that cannot be passed on: nothing, too much, or what JSON cannot hold. */
export class StageValueError extends FinalError {
  static {
    StageValueError.prototype.name = 'StageValueError'
  }

  constructor(
    /** The name of the stage. */
    readonly stage: string,
    /** The id of the item. */
    readonly item: string,
    problem: string,
  ) {
    super(`The stage '${stage}' returned a value for the item ${quoted(item)} that cannot be passed on: ${problem}`, {
      code: 'stage_value_invalid',
    })
  }
}

/** A batch stage did not return one result per item. */
export class BatchResultError extends RedriveError {
  static {
    BatchResultError.prototype.name = 'BatchResultError'
  }

  constructor(
    /** The name of the stage. */
    readonly stage: string,
    expected: number,
    returned: unknown,
  ) {
    const got = Array.isArray(returned) ? `${returned.length} results` : `no list but ${quoted(typeof returned)}`
    super('batch_result_invalid', `The batch stage '${stage}' got ${expected} items and returned ${got}.`)
  }
}

/** The `cost` function of a stage threw. */
export class StageCostError extends FinalError {
  static {
    StageCostError.prototype.name = 'StageCostError'
  }

  constructor(
    /** The name of the stage. */
    readonly stage: string,
    /** The id of the item. */
    readonly item: string,
    options: ErrorOptions,
  ) {
    super(`The 'cost' of the item ${quoted(item)} at the stage '${stage}' could not be computed.`, {
      ...options,
      code: 'stage_cost_invalid',
    })
  }
}

/** An item of a source cannot be taken: JSON cannot hold it, it is too large, or its line is broken. */
export class SourceItemError extends FinalError {
  static {
    SourceItemError.prototype.name = 'SourceItemError'
  }

  constructor(place: string, problem: string, options?: ErrorOptions) {
    super(`${place}: ${problem}`, { ...options, code: 'source_item_invalid' })
  }
}

/** Thrown when a source has changed since a run read from it, so the run cannot continue there. */
export class SourceChangedError extends FinalError {
  static {
    SourceChangedError.prototype.name = 'SourceChangedError'
  }

  constructor(source: string, problem: string) {
    super(`${source} is not the one that the run has read so far: ${problem}. Bring it back, or start another run.`, {
      code: 'source_changed',
    })
  }
}

/** A failure by its code and its stage. */
function nameOf({ errorCode, stage }: NonNullable<BudgetStop['cause']>): string {
  return `${quoted(errorCode)} in '${stage}'`
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(1))} %`
}
