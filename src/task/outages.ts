/** A store does not answer, or does so again. */
export type Outage = { readonly isOver: false; readonly failure: unknown } | { readonly isOver: true }

/** Tells once when the first of those who ask the store gets no answer, and once when the last of them has got one. */
export class Outages {
  private unanswered = 0

  constructor(private readonly tell: (outage: Outage) => void) {}

  began(failure: unknown): void {
    if (this.unanswered++ === 0) this.say({ isOver: false, failure })
  }

  ended(): void {
    if (--this.unanswered === 0) this.say({ isOver: true })
  }

  /** What the listener throws is its own affair, and does not stop who asks. */
  private say(outage: Outage): void {
    queueMicrotask(() => this.tell(outage))
  }
}
