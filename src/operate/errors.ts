import { failedQueueOf, isFailedQueue } from '../bus/index.js'
import { FinalError } from '../policy/index.js'
import { quoted } from '../policy/internal.js'

/** Thrown when there is no failure group with this id, and none whose id begins with it. */
export class GroupNotFoundError extends FinalError {
  static {
    GroupNotFoundError.prototype.name = 'GroupNotFoundError'
  }

  constructor(id: string) {
    super(`There is no failure group ${quoted(id)}. 'redrive groups ls' lists the groups.`, { code: 'group_not_found' })
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

/** Thrown when no route is known for the messages of a failed queue, or the target queue cannot be used. */
export class NoRouteError extends FinalError {
  static {
    NoRouteError.prototype.name = 'NoRouteError'
  }

  constructor(problem: string) {
    super(problem, { code: 'no_route' })
  }
}
