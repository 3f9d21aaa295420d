import { formatDuration, TimeoutError } from '../policy/index.js'
import { type Clock, unwatchAbort, watchAbort } from '../time/index.js'
import type { Admission } from './circuit-breaker.js'

/** One try, as the function that is tried sees it. */
export interface Attempt {
  /** Its number, from 1. After a deferral the number stays: a deferral is not an attempt. */
  readonly attempt: number
  /** Aborts when the attempt's time is up or the caller aborts. */
  readonly signal: AbortSignal
  /** When the whole call must have ended, on the clock's monotonic scale; `undefined` if it has no deadline. */
  readonly deadline: number | undefined
}

/** An attempt under way. */
export class RunningAttempt implements Attempt {
  readonly attempt: number
  readonly startedAt: number
  readonly deadline: number | undefined
  /** What the circuit breaker let it through with. */
  admission: Admission | undefined = undefined
  timedOutAfterMs: number | undefined = undefined
  #controller: AbortController | undefined = undefined
  #stopped: { readonly reason: unknown } | undefined = undefined

  constructor(attempt: number, startedAt: number, deadline: number | undefined) {
    this.attempt = attempt
    this.startedAt = startedAt
    this.deadline = deadline
  }

  /** Made when it is first asked for: a controller costs more than a call does, and few functions look at it. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#stopped !== undefined) this.#controller.abort(this.#stopped.reason)
    }
    return this.#controller.signal
  }

  stop(reason: unknown): void {
    this.#stopped = { reason }
    this.#controller?.abort(reason)
  }
}

/**
 * Calls the function and settles with it, or at once when its time is up or the caller aborts. What the function does
 * after that is ignored.
 */
export function runBounded<T>(
  fn: (attempt: Attempt) => T | PromiseLike<T>,
  attempt: RunningAttempt,
  limitMs: number,
  clock: Clock,
  caller: AbortSignal | undefined,
  category: string | undefined,
): T | PromiseLike<T> {
  if (limitMs === Infinity && caller === undefined) return fn(attempt)

  return new Promise<T>((resolve, reject) => {
    const release = () => {
      if (timer !== undefined) clock.clearTimer(timer)
      if (caller !== undefined) unwatchAbort(caller, onAbort)
    }
    const stop = (reason: unknown) => {
      release()
      reject(reason)
      attempt.stop(reason)
    }
    const onAbort = () => stop(caller?.reason)
    const onTimeout = () => {
      attempt.timedOutAfterMs = limitMs
      stop(timeoutError(limitMs, category))
    }
    const onFailure = (failure: unknown) => {
      release()
      reject(failure)
    }
    if (limitMs <= 0) return onTimeout()
    const timer = limitMs === Infinity ? undefined : clock.setTimer(onTimeout, limitMs)
    if (caller !== undefined) watchAbort(caller, onAbort)

    try {
      Promise.resolve(fn(attempt)).then(result => {
        release()
        resolve(result)
      }, onFailure)
    } catch (failure) {
      onFailure(failure)
    }
  })
}

function timeoutError(limitMs: number, category: string | undefined): TimeoutError {
  const code = category === undefined ? 'timeout' : `TIMEOUT_${category}`
  return new TimeoutError(`The attempt took longer than ${formatDuration(limitMs)}.`, { code, timeoutMs: limitMs })
}
