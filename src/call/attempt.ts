import { LazyAbort } from '../time/index.js'
import type { Admission } from './circuit-breaker.js'

/**
 * One try, as the function that is tried sees it. The signal is made when it is first read, so a copy, such as
 * `{ ...attempt }`, does not have it; a class rather than an interface, so that the compiler knows.
 */
export abstract class Attempt {
  /** Its number, from 1. After a deferral the number stays: a deferral is not an attempt. */
  abstract readonly attempt: number
  /** When the whole call must have ended, on the clock's monotonic scale; `undefined` if it has no deadline. */
  abstract readonly deadline: number | undefined
  /** Aborts when the attempt's time is up or the caller aborts. */
  abstract get signal(): AbortSignal
}

/** An attempt under way. */
export class RunningAttempt extends LazyAbort implements Attempt {
  constructor(
    readonly attempt: number,
    readonly deadline: number | undefined,
    /** On the clock's monotonic scale; 0 when nothing about the call is timed. */
    readonly startedAt: number,
    /** What the circuit breaker let it through with. */
    readonly admission: Admission | undefined,
  ) {
    super()
  }
}
