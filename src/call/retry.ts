import { type Classifier, type Duration, type Policy, type PolicyInput, policy as parse } from '../policy/index.js'
import { checkOptions, type KnownOptions, wrongOption } from '../policy/internal.js'
import type { Sink, Work } from '../telemetry/index.js'
import type { Clock } from '../time/index.js'
import { type Attempt, RunningAttempt } from './attempt.js'
import { Call, isLimited, NO_OPTIONS } from './call.js'
import type { CircuitBreaker } from './circuit-breaker.js'
import type { RetryBudget } from './retry-budget.js'

/** The description of a call in its work events and errors. */
type Description = {
  readonly [Field in Exclude<keyof Work, 'kind' | 'idempotencyKey' | 'queue' | 'pipeline' | 'run' | 'stage' | 'step'>]?:
    | Work[Field]
    | undefined
}

/** Options of a call, besides its policy. */
export interface RetryOptions extends Description {
  /** Ends the call at once, whatever it is doing. An abort is not a failure, and is never retried. */
  readonly signal?: AbortSignal | undefined
  /** How long the whole call may take, attempts and delays together. An attempt still running then is cut short. */
  readonly deadline?: Duration | undefined
  /** The attempt of an outer retry: this call then keeps its signal and deadline, and leaves the retrying to it. */
  readonly within?: Attempt | undefined
  /** Code that corrects the verdict on a failure. */
  readonly classify?: Classifier | undefined
  /** Takes the work events of the call. */
  readonly sink?: Sink | undefined
  /** Rejects calls immediately while its circuit is open. */
  readonly breaker?: CircuitBreaker | undefined
  /** Limits the retries of all calls that share it. */
  readonly budget?: RetryBudget | undefined
  /** The source of time. Default: the system clock. */
  readonly clock?: Clock | undefined
  /**
   * Returns the random number for the jitter. Default: derived from `id` and the attempt number; `Math.random` for a call
   * with neither `id` nor `sink`.
   */
  readonly random?: (() => number) | undefined
}

/** Three attempts, exponential backoff from 1 s up to 30 s, full jitter: `policies.call`. */
const DEFAULT = /* @__PURE__ */ parse()

/** The options of a call, each with the type of its value. */
export const RETRY_OPTIONS: KnownOptions<RetryOptions> = {
  signal: 'object',
  deadline: '',
  within: 'object',
  classify: 'function',
  sink: 'function',
  breaker: 'object',
  budget: 'object',
  clock: 'object',
  random: 'function',
  id: '',
  name: '',
  category: '',
  tenantId: '',
  correlationId: '',
  traceId: '',
  context: '',
}

/**
 * Calls a function until it succeeds or its policy gives up.
 *
 * ```ts
 * const user = await retry(({ signal }) => loadUser(42, signal), { attempts: 5, timeout: '2s' })
 * ```
 *
 * Rejects with the failure itself when it is final, with the signal's reason when the caller aborts, and otherwise with
 * a `RetryExhaustedError` that has its attempts on it.
 */
export function retry<T>(
  fn: (attempt: Attempt) => T | PromiseLike<T>,
  policy: PolicyInput = DEFAULT,
  options: RetryOptions = NO_OPTIONS,
): Promise<T> {
  let parsed: Policy
  try {
    parsed = parse(policy)
    if (typeof fn !== 'function') throw wrongOption('fn', 'a function', fn)
    check(options)
  } catch (mistake) {
    return Promise.reject(mistake)
  }
  if (isLimited(parsed, options)) return new Promise(settle => new Call(fn, parsed, options, settle).wake())

  // A call that nothing limits keeps nothing until it fails. Then it goes on as a `Call`, which settles the promise that
  // is returned here, and not through another promise: what waits should not hold two.
  const failed = (failure: unknown) => {
    const then = (settle: (outcome: T | Promise<never>) => void) =>
      new Call(fn, parsed, NO_OPTIONS, settle).failed(failure)
    // A promise that is resolved with this calls its `then`, with one function.
    return { then } as unknown as PromiseLike<T>
  }
  // Called right here, since each frame more in the stack of an error costs as much as classifying it.
  try {
    return Promise.resolve(fn(new RunningAttempt(1, undefined))).then(undefined, failed)
  } catch (failure) {
    return Promise.resolve(failed(failure))
  }
}

/**
 * The options that were checked last: most callers pass the same object every time, and checking costs as much as a call.
 * One that is changed in between is not checked again.
 */
let checked = NO_OPTIONS

function check(options: RetryOptions): void {
  if (options === checked || options === NO_OPTIONS) return
  checkOptions('retry()', options, RETRY_OPTIONS)
  checked = options
}

/** Wraps a function so that every call is retried. The wrapper takes the same arguments. */
export function retrying<This, Args extends unknown[], T>(
  fn: (this: This, ...args: Args) => T | PromiseLike<T>,
  policy: PolicyInput = DEFAULT,
  options: RetryOptions = NO_OPTIONS,
): (this: This, ...args: Args) => Promise<T> {
  checkOptions('retrying()', options, RETRY_OPTIONS)
  const parsed = parse(policy)
  const named = { ...options, name: options.name ?? (fn.name || undefined) }
  return function (...args) {
    return retry(() => fn.apply(this, args), parsed, named)
  }
}
