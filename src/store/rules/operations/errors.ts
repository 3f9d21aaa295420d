import { FinalError } from '../../../policy/index.js'
import { commandLine, quoted } from '../../../policy/internal.js'

/** Thrown when there is no operation with this id. */
export class OperationNotFoundError extends FinalError {
  static {
    OperationNotFoundError.prototype.name = 'OperationNotFoundError'
  }

  constructor(id: string) {
    super(`There is no operation ${quoted(id)}. To list them, run: ${commandLine('ops ls')}`, {
      code: 'operation_not_found',
    })
  }
}
