import { failureText } from '../telemetry/index.js'

/** A store or broker stopped answering, or answers again. */
export type Outage = { readonly isOver: false; readonly failure: unknown } | { readonly isOver: true }

/** Calls a listener once when the first of several callers gets no answer, and once when the last of them has got one. */
export class Outages {
  readonly #listener: (outage: Outage) => void
  readonly #isEnding: () => boolean
  #unanswered = 0

  constructor(listener: (outage: Outage) => void = () => {}, isEnding: () => boolean) {
    this.#listener = listener
    this.#isEnding = isEnding
  }

  /** The outage has lasted for a minute: says so on stderr, whoever listens. */
  lasting(failure: unknown): void {
    process.emitWarning(`No answer for a minute; still trying. ${failureText(failure)}`, {
      type: 'RedriveWarning',
      code: 'outage',
    })
  }

  began(failure: unknown): void {
    if (this.#unanswered++ === 0) this.#notify({ isOver: false, failure })
  }

  ended(): void {
    // Whoever is ending asks no more, and so cannot know.
    if (--this.#unanswered === 0 && !this.#isEnding()) this.#notify({ isOver: true })
  }

  /** Passes on an outage that was noticed elsewhere. */
  note(outage: Outage): void {
    if (outage.isOver) this.ended()
    else this.began(outage.failure)
  }

  /** A listener that throws must not disturb the work. */
  #notify(outage: Outage): void {
    Promise.resolve(outage)
      .then(this.#listener)
      .catch(() => {})
  }
}
