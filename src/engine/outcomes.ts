import { type Duration, OptionError, parseDuration } from '../policy/index.js'

// Known by a symbol rather than by their class: a file of tasks and the `redrive` command may each load a Redrive of
// their own.
const LATER = Symbol.for('redrive.later')
const SKIP = Symbol.for('redrive.skip')

/** Returned by a handler that wants to be called again later. Nothing has failed, and nothing is counted. */
export class Later {
  readonly [LATER] = true
  /** How long to wait until the next call. */
  readonly delayMs: number

  constructor(delay: Duration) {
    const delayMs = parseDuration(delay)
    if (delayMs === undefined)
      throw new OptionError('delay', `later() takes a duration such as '5m', got ${String(delay)}.`)
    this.delayMs = delayMs
  }
}

/** Returned by a handler that has nothing to do, with the reason. The task ends as skipped. */
export class Skip {
  readonly [SKIP] = true
  /** Why there is nothing to do. */
  readonly reason: string

  constructor(reason: string) {
    // A store takes nothing but text, and a reason that it refuses would hold up all that is settled with it.
    this.reason = String(reason)
  }
}

/** Return it from a handler to be called again after this time. It costs no attempt. */
export function later(delay: Duration): Later {
  return new Later(delay)
}

/** Return it from a handler that has nothing to do: the task ends as skipped, with this reason. */
export function skip(reason: string): Skip {
  return new Skip(reason)
}

/** Whether a handler asks to be called later. */
export function isLater(result: unknown): result is Later {
  return typeof result === 'object' && result !== null && LATER in result
}

/** Whether a handler found nothing to do. */
export function isSkip(result: unknown): result is Skip {
  return typeof result === 'object' && result !== null && SKIP in result
}
