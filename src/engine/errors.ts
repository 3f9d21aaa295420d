import { FinalError, type GiveUpReason, RedriveError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import { failureText } from '../telemetry/index.js'

/** The signal's reason when the worker of a running task stops. The task is handed back without costing an attempt. */
export class WorkerStoppedError extends RedriveError {
  static {
    WorkerStoppedError.prototype.name = 'WorkerStoppedError'
  }

  constructor(worker: string) {
    super('worker_stopped', `The worker '${worker}' is stopping: the task is handed back for another to run.`)
  }
}

/** The signal's reason when a running task is cancelled. */
export class TaskCancelledError extends RedriveError {
  static {
    TaskCancelledError.prototype.name = 'TaskCancelledError'
  }

  constructor(id: string) {
    super('task_cancelled', `The task ${quoted(id)} was cancelled.`)
  }
}

/**
 * The signal's reason when its worker sent no heartbeat for a whole lease: another worker may be running the task by
 * now.
 */
export class LeaseLostError extends RedriveError {
  static {
    LeaseLostError.prototype.name = 'LeaseLostError'
  }

  constructor(
    worker: string,
    /** Whether the worker could not send one because its event loop was blocked, or its process suspended. */
    readonly wasBlocked = false,
  ) {
    const cause = wasBlocked ? ', since its process was blocked or suspended' : ''
    super(
      'lease_lost',
      `The worker '${worker}' sent no heartbeat within its lease${cause}: another worker may be running the task by now.`,
    )
  }
}

/**
 * Rejects the promise of a step that was given up: its error was final, or its attempts are used up. `cause` is its last failure.
 * A handler that fails with it ends its task as dead.
 */
export class StepFailedError extends FinalError {
  static {
    StepFailedError.prototype.name = 'StepFailedError'
  }

  constructor(
    /** The name of the step. */
    readonly step: string,
    /** Why it was given up. */
    readonly reason: GiveUpReason,
    /** The code of its last failure, such as `http_402`. */
    readonly errorCode: string,
    cause: unknown,
  ) {
    super(`The step '${step}' was given up (${reason}): ${failureText(cause)}`, { code: 'step_failed', cause })
  }
}

/**
 * Rejects the promise of a step that was not run, or not recorded: its name is taken (`step_repeated`), its handler has ended
 * (`step_too_late`), its result is no JSON or too long (`step_result_invalid`), its handler has no steps
 * (`step_unsupported`), or its task goes back to waiting for its next attempt (`step_waits`).
 */
export class StepError extends FinalError {
  static {
    StepError.prototype.name = 'StepError'
  }

  constructor(
    code: 'step_repeated' | 'step_too_late' | 'step_result_invalid' | 'step_unsupported' | 'step_waits',
    /** The name of the step. */
    readonly step: string,
    message: string,
  ) {
    super(message, { code })
  }
}
