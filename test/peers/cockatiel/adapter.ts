import {
  Bulkhead,
  type CircuitBreaker,
  type PolicyInput,
  RetryExhaustedError,
  retry,
  UnwantedResultError,
  until,
} from 'redrive'
import { on } from 'redrive/telemetry'
import type { FakeClock } from 'redrive/testing'

/** Which errors and results count as failures. */
export interface Filter {
  readonly error: (error: unknown) => boolean
  readonly result: (result: unknown) => boolean
}

type ErrorClass = abstract new (...args: never[]) => Error
type Fn<T> = (context: { readonly attempt: number; readonly signal: AbortSignal }) => T | PromiseLike<T>

export const handleAll: Filter = { error: () => true, result: () => false }
export const handleType = (type: ErrorClass): Filter => ({ ...handleAll, error: error => error instanceof type })
export const handleWhenResult = (result: Filter['result']): Filter => ({ error: () => false, result })

/** A policy of cockatiel's that retries. `maxAttempts` counts retries there. */
export function retryPolicy(
  filter: Filter,
  { maxAttempts = 1000, backoff = 'none' }: { maxAttempts?: number; backoff?: PolicyInput['backoff'] },
  clock: FakeClock,
) {
  const retries: { readonly attempt: number; readonly delay: number }[] = []
  const givenUp: unknown[] = []
  const sink = on({
    retry_scheduled: ({ attempt, delayMs }) => retries.push({ attempt, delay: delayMs }),
    gave_up: ({ failure }) => givenUp.push(failure),
  })
  const execute = async <T>(fn: Fn<T>, signal?: AbortSignal): Promise<T> => {
    const call = retry(
      until(
        ({ attempt, signal }) => fn({ attempt: attempt - 1, signal }),
        result => !filter.result(result),
      ),
      { attempts: maxAttempts + 1, backoff, jitter: 'none', retryOn: 'all' },
      { clock, sink, signal, classify: failure => (isHandled(failure, filter) ? 'retryable' : 'final') },
    )
    const [result] = await Promise.allSettled([call, clock.runAll()])
    if (result.status === 'fulfilled') return result.value
    return returnOrThrow(result.reason)
  }
  return { execute, retries, givenUp }
}

function isHandled(failure: unknown, filter: Filter): boolean {
  return failure instanceof UnwantedResultError || filter.error(failure)
}

/** Cockatiel ends with the last failure itself, and with the last result if that was the failure. */
function returnOrThrow<T>(error: unknown): T {
  const cause = error instanceof RetryExhaustedError ? error.cause : error
  if (cause instanceof UnwantedResultError) return cause.result as T
  throw cause
}

/** A policy of cockatiel's that breaks the circuit. */
export function breakerPolicy(filter: Filter, breaker: CircuitBreaker, clock: FakeClock) {
  const changes: string[] = []
  breaker.onChange(({ to, isByHand }) => changes.push(isByHand ? `${to} by hand` : to))
  let handles = 0
  return {
    changes,
    get state() {
      return breaker.state
    },
    execute: <T>(fn: Fn<T>, signal?: AbortSignal): Promise<T> =>
      retry(
        ({ attempt, signal }) => fn({ attempt, signal }),
        { attempts: 1, retryOn: 'all' },
        { breaker, clock, signal, classify: failure => (filter.error(failure) ? 'retryable' : 'final') },
      ).catch(error => returnOrThrow<T>(error)),
    /** Holds it open until all handles are disposed of. */
    isolate() {
      if (handles++ === 0) breaker.open()
      return {
        dispose: () => {
          if (--handles === 0) breaker.close()
        },
      }
    },
  }
}

/** A policy of cockatiel's that limits concurrency. */
export function bulkheadPolicy(concurrency: number, queue = 0) {
  const limit = new Bulkhead('cockatiel', { concurrency, queue: Math.min(queue, Number.MAX_SAFE_INTEGER) })
  return {
    get executionSlots() {
      return concurrency - limit.running
    },
    get queueSlots() {
      return queue - limit.waiting
    },
    execute: <T>(
      fn: (context: { readonly signal: AbortSignal }) => T | PromiseLike<T>,
      signal = new AbortController().signal,
    ) => limit.run(() => fn({ signal }), { signal }),
  }
}

/** A policy of cockatiel's that cuts an attempt short. */
export function timeoutPolicy(timeout: number, clock: FakeClock) {
  const events: string[] = []
  const sink = on({
    attempt_succeeded: () => events.push('success'),
    timed_out: () => events.push('timeout'),
    gave_up: () => events.push('failure'),
  })
  return {
    events,
    execute: <T>(fn: Fn<T>, signal?: AbortSignal): Promise<T> =>
      retry(({ attempt, signal }) => fn({ attempt, signal }), { attempts: 1, timeout }, { clock, sink, signal }).catch(
        error => returnOrThrow<T>(error),
      ),
  }
}
