import { TimeoutError } from '../policy/index.js'
import { LazyAbort } from '../time/index.js'
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
export class RunningAttempt extends LazyAbort implements Attempt {
  /** What the circuit breaker let it through with. */
  admission: Admission | undefined = undefined

  constructor(
    readonly attempt: number,
    readonly deadline: number | undefined,
    /** On the clock's monotonic scale; 0 when nothing about the call is timed. */
    readonly startedAt: number,
    /** How long it may run. */
    readonly limitMs: number,
  ) {
    super()
  }
}

/** What an attempt that ran for too long fails with. */
export function timeoutError(limitMs: number, isDeadline: boolean, category: string | undefined): TimeoutError {
  const what = isDeadline ? 'The deadline of the call passed' : 'The attempt took too long: it was cut short'
  const code = category === undefined ? 'timeout' : `TIMEOUT_${category}`
  return new TimeoutError(`${what} after ${limitMs} ms.`, { code, timeoutMs: limitMs })
}
