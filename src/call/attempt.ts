/**
 * One attempt, as the called function sees it. The signal is created on first access, so a copy, such as
 * `{ ...attempt }`, does not have it; a class rather than an interface, so that the compiler rejects such a copy.
 */
export abstract class Attempt {
  /** Its number, from 1. After a deferral the number stays: a deferral is not an attempt. */
  abstract readonly attempt: number
  /** When the whole call must have ended, on the clock's monotonic scale; `undefined` if it has no deadline. */
  abstract readonly deadline: number | undefined
  /** Aborts when the attempt times out or the caller aborts. */
  abstract get signal(): AbortSignal
}

/** An attempt under way. */
export class RunningAttempt implements Attempt {
  #controller: AbortController | undefined

  constructor(
    readonly attempt: number,
    readonly deadline: number | undefined,
  ) {}

  /** Made when it is first asked for: a signal takes longer than ten calls, and few functions look at it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    return this.#controller.signal
  }

  abort(reason: unknown): void {
    this.#controller ??= new AbortController()
    this.#controller.abort(reason)
  }
}
