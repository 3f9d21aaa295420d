/** Work for the whole fleet that any live worker does now and then, beside its tasks. */
export interface Duty {
  /** The store took a heartbeat. Must not throw; what takes longer goes on by itself. */
  beat(): void
  /** The worker stops. Resolves when nothing of it goes on. */
  stop(): Promise<void>
}

/** The duties of a worker, in one list. */
export class Duties {
  readonly #duties: readonly Duty[]

  constructor(duties: readonly Duty[]) {
    this.#duties = duties
  }

  beat(): void {
    for (const duty of this.#duties) duty.beat()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#duties.map(duty => duty.stop()))
  }
}
