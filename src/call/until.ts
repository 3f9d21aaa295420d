import { RetryableError } from '../policy/index.js'
import type { Attempt } from './attempt.js'

/** The failure of an attempt whose result was not the one that the caller waits for. */
export class UnwantedResultError extends RetryableError {
  static {
    UnwantedResultError.prototype.name = 'UnwantedResultError'
  }

  constructor(
    /** The result that was refused. */
    readonly result: unknown,
  ) {
    super('The call returned a result that is to be retried.', { code: 'unwanted_result' })
  }
}

/**
 * Makes a function fail, and so be retried, as long as its result is not the one that you wait for. Works with all that
 * retries a function.
 *
 * ```ts
 * const job = await retry(until(({ signal }) => loadJob(42, signal), job => job.state === 'done'), { attempts: 20 })
 * ```
 *
 * When the policy gives up, the last result is on the `cause` of the `RetryExhaustedError`.
 */
export function until<T, Wanted extends T>(
  fn: (attempt: Attempt) => T | PromiseLike<T>,
  isWanted: (result: T) => result is Wanted,
): (attempt: Attempt) => Promise<Wanted>
export function until<T>(
  fn: (attempt: Attempt) => T | PromiseLike<T>,
  isWanted: (result: T) => boolean,
): (attempt: Attempt) => Promise<T>
export function until<T>(
  fn: (attempt: Attempt) => T | PromiseLike<T>,
  isWanted: (result: T) => boolean,
): (attempt: Attempt) => Promise<T> {
  return async attempt => {
    const result = await fn(attempt)
    if (isWanted(result)) return result
    throw new UnwantedResultError(result)
  }
}
