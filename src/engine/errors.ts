import { RedriveError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

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

  constructor(worker: string) {
    super(
      'lease_lost',
      `The worker '${worker}' sent no heartbeat within its lease: another worker may be running the task by now.`,
    )
  }
}
