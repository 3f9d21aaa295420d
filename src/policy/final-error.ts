import { RedriveError } from './errors.js'

/**
 * Throw it from any work to say that trying again will not help. Only a policy that lists this very error retries it.
 */
export class FinalError extends RedriveError {
  static {
    FinalError.prototype.name = 'FinalError'
  }

  constructor(message: string, options?: ErrorOptions & { code?: string }) {
    super(options?.code ?? (new.target === FinalError ? 'final' : new.target.name), message, options)
  }
}
