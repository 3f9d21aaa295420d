import { FinalError, RetryableError } from '../../../policy/index.js'
import { commandLine, quoted } from '../../../policy/internal.js'
import type { RunStatus } from '../../contract/run-store.js'

/** Thrown when a run is opened under an id that another run has. */
export class RunExistsError extends FinalError {
  static {
    RunExistsError.prototype.name = 'RunExistsError'
  }

  constructor(id: string) {
    super(`There is a run ${quoted(id)} already. Resume it, or open this one under another id.`, { code: 'run_exists' })
  }
}

/** Thrown when there is no run with this id. */
export class RunNotFoundError extends FinalError {
  static {
    RunNotFoundError.prototype.name = 'RunNotFoundError'
  }

  constructor(id: string) {
    super(
      `There is no run ${quoted(id)}. It may have been pruned; to list the runs, run: ${commandLine('pipeline ls')}`,
      {
        code: 'run_not_found',
      },
    )
  }
}

/** Thrown when another process is at work on a run in a way that excludes this call. Nothing was changed. */
export class RunBusyError extends RetryableError {
  static {
    RunBusyError.prototype.name = 'RunBusyError'
  }

  constructor(id: string, problem: string) {
    super(`The run ${quoted(id)} ${problem}`, { code: 'run_busy' })
  }
}

/** Thrown when a run has ended, or its source has, and there is nothing left to do what was asked. */
export class RunEndedError extends FinalError {
  static {
    RunEndedError.prototype.name = 'RunEndedError'
  }

  constructor(id: string, status: RunStatus, problem: string) {
    super(`The run ${quoted(id)} is ${status}: ${problem}`, { code: 'run_ended' })
  }
}
