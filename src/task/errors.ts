import { FinalError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'
import type { TaskRecord } from '../store/index.js'

/**
 * Thrown when a payload is invalid: `enqueue` refuses it, and a stored one that is no longer valid fails its task for
 * good.
 */
export class PayloadError extends FinalError {
  static {
    PayloadError.prototype.name = 'PayloadError'
  }

  constructor(
    /** The kind of task. */
    readonly kind: string,
    problem: string,
  ) {
    super(`The payload is invalid for the task '${kind}': ${problem}`, { code: 'payload_invalid' })
  }
}

/** Thrown when there is no task with this id: it was never enqueued, or it has been pruned. */
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

/** Thrown when the task with this id is of another kind than expected, so its payload and result have other types. */
export class TaskKindError extends FinalError {
  static {
    TaskKindError.prototype.name = 'TaskKindError'
  }

  constructor(
    /** The id that was asked for. */
    readonly id: string,
    /** The kind of the task. */
    readonly kind: string,
    /** The expected kind. */
    readonly expectedKind: string,
  ) {
    super(
      `The task ${quoted(id)} is of the kind ${quoted(kind)}, not ${quoted(expectedKind)}. Pass the id of a task of that kind, or the 'task' that this id belongs to.`,
      { code: 'task_kind_mismatch' },
    )
  }
}

/** Thrown when a task has no result, because it is dead, cancelled or skipped. */
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

/** Thrown when a task has succeeded but its result cannot be read: it was not stored, or its schema rejects it. */
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
