import { isRefusal } from '../attempt/index.js'
import { failureText } from '../telemetry/index.js'
import { systemClock } from '../time/index.js'

/**
 * Warns of duties that the store refuses: each is tried again, and nobody waits for it, so nobody else would tell. A store that is
 * away is no refusal, and is told by the engine.
 */
export class DutyWarnings {
  readonly #told = new Set<string>()

  /** Warns once, until the duty succeeds. `what` goes on after "Cannot". */
  failed(what: string, failure: unknown): void {
    if (this.#told.has(what) || !isRefusal(failure, systemClock)) return
    this.#told.add(what)
    process.emitWarning(`Cannot ${what}, and will try again. ${failureText(failure)}`, {
      type: 'RedriveWarning',
      code: 'duty_refused',
    })
  }

  succeeded(what: string): void {
    this.#told.delete(what)
  }
}
