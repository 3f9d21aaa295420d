import { failedQueueOf, isFailedQueue } from '../bus/index.js'
import { FinalError, RetryableError } from '../policy/index.js'
import { commandLine, quoted } from '../policy/internal.js'
import type { OperationRecord } from '../store/internal.js'

/** Thrown when there is no failure group with this id, and none whose id begins with it. */
export class GroupNotFoundError extends FinalError {
  static {
    GroupNotFoundError.prototype.name = 'GroupNotFoundError'
  }

  constructor(id: string) {
    super(`There is no failure group ${quoted(id)}. To list them, run: ${commandLine('groups ls')}`, {
      code: 'group_not_found',
    })
  }
}

/** Thrown when there is no failed queue with this name. */
export class NoFailedQueueError extends FinalError {
  static {
    NoFailedQueueError.prototype.name = 'NoFailedQueueError'
  }

  constructor(name: string) {
    super(
      isFailedQueue(name)
        ? `There is no failed queue ${quoted(name)}.`
        : `${quoted(name)} is not a failed queue. Did you mean ${quoted(failedQueueOf(name))}?`,
      { code: 'no_failed_queue' },
    )
  }
}

/**
 * Thrown when a bulk act cannot be carried to its end, since the store has failed; its code is that of the failure. Its
 * operation stays on record: a live worker goes on with it, and so does the same call.
 */
export class OperationInterruptedError extends RetryableError {
  static {
    OperationInterruptedError.prototype.name = 'OperationInterruptedError'
  }
  /** The id of the operation. */
  readonly operation: string

  constructor(operation: string, cause: RetryableError) {
    super(
      `The operation ${operation} has begun, and is not at its end: ${cause.message} Others may go on with it meanwhile; the same call goes on with it, too.`,
      { cause, code: cause.code },
    )
    this.operation = operation
  }
}

/** Thrown when an operation on record requeues the same failed queue already. */
export class QueueBusyError extends FinalError {
  static {
    QueueBusyError.prototype.name = 'QueueBusyError'
  }

  constructor(queue: string, { id, by }: Pick<OperationRecord, 'id' | 'by'>) {
    super(
      `The operation ${id} by ${by.who} requeues ${quoted(queue)} already. To go on with it, run: ${commandLine('ops continue', {}, id)}`,
      { code: 'queue_busy' },
    )
  }
}

/** Thrown when no route is known for the messages of a failed queue, or the target queue cannot be used. */
export class NoRouteError extends FinalError {
  static {
    NoRouteError.prototype.name = 'NoRouteError'
  }

  constructor(problem: string) {
    super(problem, { code: 'no_route' })
  }
}
