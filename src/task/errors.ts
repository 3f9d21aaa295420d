import { FinalError, RedriveError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { TaskRecord } from '../store/index.js'

/** A payload that its task does not take: refused when it is enqueued, and final when a stored one no longer fits. */
export class PayloadError extends FinalError {
  static {
    PayloadError.prototype.name = 'PayloadError'
  }

  constructor(
    /** The kind of task. */
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

/** There is no task with this id: none was enqueued with it, or it has ended and was pruned since. */
export class TaskNotFoundError extends FinalError {
  static {
    TaskNotFoundError.prototype.name = 'TaskNotFoundError'
  }

  constructor(
    /** The id that was asked for. */
    readonly id: string,
  ) {
    super(
      `There is no task ${quoted(id)} in the store. Either it was never enqueued there, or it has ended, and its retention is over.`,
      { code: 'task_not_found' },
    )
  }
}

/** The task with this id is of another kind than the one that was asked for, so its payload and result have other types. */
export class TaskKindError extends FinalError {
  static {
    TaskKindError.prototype.name = 'TaskKindError'
  }

  constructor(
    /** The id that was asked for. */
    readonly id: string,
    /** The kind of the task. */
    readonly kind: string,
    /** The kind that was asked for. */
    readonly expectedKind: string,
  ) {
    super(
      `The task ${quoted(id)} is of the kind ${quoted(kind)}, not ${quoted(expectedKind)}. Pass the id of a task of that kind, or the 'task' that this id belongs to.`,
      { code: 'task_kind_mismatch' },
    )
  }
}

/** A task that has no result, since it ended as dead, cancelled or skipped. */
export class TaskNotSucceededError extends FinalError {
  static {
    TaskNotSucceededError.prototype.name = 'TaskNotSucceededError'
  }
  /** The id of the task. */
  readonly id: string
  /** How it ended. */
  readonly status: TaskRecord['status']
  /** Why it is dead or was skipped. */
  readonly reason: string | undefined
  /** The code of its last failure, such as `http_502`. */
  readonly errorCode: string | undefined

  constructor({ id, status, reason, errorCode, errorMessage }: TaskRecord) {
    const failure = status === 'dead' && errorMessage !== undefined ? `. Its last failure: ${errorMessage}` : ''
    super(`The task ${quoted(id)} has no result: it ${ended(status, reason)}${failure}`, { code: 'task_not_succeeded' })
    this.id = id
    this.status = status
    this.reason = reason
    this.errorCode = errorCode
  }
}

function ended(status: TaskRecord['status'], reason: string | undefined): string {
  const why = reason === undefined ? '' : ` (${reason})`
  return status === 'dead' ? `is dead${why}` : `was ${status}${why}`
}

/** A task has succeeded, but its result cannot be read: it was not kept, or its schema refuses it. */
export class ResultError extends FinalError {
  static {
    ResultError.prototype.name = 'ResultError'
  }

  constructor(
    /** The id of the task. */
    readonly id: string,
    problem: string,
    code: 'result_not_kept' | 'result_invalid',
  ) {
    super(`The result of the task ${quoted(id)} ${problem}`, { code })
  }
}
