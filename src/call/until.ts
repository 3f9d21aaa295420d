import { RetryableError } from '../policy/index.js'
import type { Attempt } from './attempt.js'

/** The failure of an attempt whose result was not the wanted one: see `until`. */
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
 * Wraps a function so that it fails, and is therefore retried, until its result is the wanted one. Works with
 * everything that retries a function.
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
