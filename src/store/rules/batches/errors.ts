import { FinalError } from '../../../policy/index.js'
import { commandLine, quoted } from '../../../policy/internal.js'

/** Thrown when there is no batch with this name. */
export class BatchNotFoundError extends FinalError {
  static {
    BatchNotFoundError.prototype.name = 'BatchNotFoundError'
  }

  constructor(name: string) {
    const advice = `It may have been pruned; to list the batches, run: ${commandLine('batch ls')}`
    super(`There is no batch ${quoted(name)}. ${advice}`, { code: 'batch_not_found' })
  }
}

/** Thrown when a member adds tasks to a batch that has ended: another worker has taken the member over, and ended it. */
export class BatchEndedError extends FinalError {
  static {
    BatchEndedError.prototype.name = 'BatchEndedError'
  }

  constructor(name: string) {
    super(`The batch ${quoted(name)} has ended, and takes no more tasks. Nothing was added.`, { code: 'batch_ended' })
  }
}
