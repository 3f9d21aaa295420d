import { FinalError, RedriveError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/** A payload that its task does not take: refused when it is enqueued, and final when a stored one no longer fits. */
export class PayloadError extends FinalError {
  static {
    PayloadError.prototype.name = 'PayloadError'
  }

  constructor(
    readonly kind: string,
    problem: string,
  ) {
    super(`The payload is not one that the task '${kind}' takes: ${problem}`, { code: 'payload_invalid' })
  }
}

/** Why the signal of a running task aborts when its worker stops. The task is handed back, at no cost of an attempt. */
export class WorkerStoppedError extends RedriveError {
  static {
    WorkerStoppedError.prototype.name = 'WorkerStoppedError'
  }

  constructor(worker: string) {
    super('worker_stopped', `The worker '${worker}' is stopping: the task is handed back for another to run.`)
  }
}

/** Why the signal of a running task aborts when somebody cancels it. */
export class TaskCancelledError extends RedriveError {
  static {
    TaskCancelledError.prototype.name = 'TaskCancelledError'
  }

  constructor(id: string) {
    super('task_cancelled', `The task ${quoted(id)} was cancelled.`)
  }
}

/** Why the signal of a running task aborts when its worker gave no sign of life for too long: it may be another's by now. */
export class LeaseLostError extends RedriveError {
  static {
    LeaseLostError.prototype.name = 'LeaseLostError'
  }

  constructor(worker: string) {
    super(
      'lease_lost',
      `The worker '${worker}' gave no sign of life within its lease: another may run the task by now.`,
    )
  }
}
