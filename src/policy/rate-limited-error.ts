import { RetryableError } from './errors.js'

/** Throw it from any work to say that the service asks to wait, for `retryAfterMs` if it says how long. */
export class RateLimitedError extends RetryableError {
  static {
    RateLimitedError.prototype.name = 'RateLimitedError'
  }
  /** How long the service asks to wait, if it says so. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, options?: ErrorOptions & { code?: string; retryAfterMs?: number }) {
    super(message, { ...options, code: options?.code ?? 'rate_limited' })
    this.retryAfterMs = options?.retryAfterMs
  }
}
