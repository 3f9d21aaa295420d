import { FinalError } from '../../policy/index.js'
import { quoted } from '../../policy/internal.js'

/** Thrown when there is no operation with this id. */
export class OperationNotFoundError extends FinalError {
  static {
    OperationNotFoundError.prototype.name = 'OperationNotFoundError'
  }

  constructor(id: string) {
    super(`There is no operation ${quoted(id)}. 'redrive ops ls' lists the operations.`, {
      code: 'operation_not_found',
    })
  }
}
