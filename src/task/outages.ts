import type { Ending } from './ending.js'

/** A store does not answer, or does so again. */
export type Outage = { readonly isOver: false; readonly failure: unknown } | { readonly isOver: true }

/** Tells once when the first of those who ask the store gets no answer, and once when the last of them has got one. */
export class Outages {
  private unanswered = 0

  constructor(
    private readonly tell: (outage: Outage) => void = () => {},
    private readonly ending: Ending,
  ) {}

  began(failure: unknown): void {
    if (this.unanswered++ === 0) this.say({ isOver: false, failure })
  }

  ended(): void {
    // One that stops asks no more, and so does not know.
    if (--this.unanswered === 0 && !this.ending.hasBegun) this.say({ isOver: true })
  }

  /** What somebody else was told, who asks the same store. */
  note(outage: Outage): void {
    if (outage.isOver) this.ended()
    else this.began(outage.failure)
  }

  /** A listener that throws is the trouble of whoever wrote it, never that of who asks. */
  private say(outage: Outage): void {
    Promise.resolve(outage)
      .then(this.tell)
      .catch(() => {})
  }
}
