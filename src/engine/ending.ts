/** The end of something that runs until it is stopped, or until it cannot go on. It ends once. */
export class Ending {
  /** Resolves when it has ended. Rejects if it ended because it could not go on. */
  readonly over: Promise<void>
  readonly #end: () => Promise<void>
  #hasBegun = false
  #ending: Promise<void> | undefined
  #resolve: () => void = () => {}
  #reject: (failure: unknown) => void = () => {}

  constructor(end: () => Promise<void>) {
    this.#end = end
    this.over = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get hasBegun(): boolean {
    return this.#hasBegun
  }

  /** Ends it. Rejects with whatever goes wrong on the way; `over` alone tells of an earlier failure. */
  stop(): Promise<void> {
    this.#ending ??= this.#begin().finally(this.#resolve)
    return this.#ending
  }

  /** Ends it because it cannot go on. */
  fail(failure: unknown): void {
    this.#ending ??= this.#begin().then(
      () => this.#reject(failure),
      () => this.#reject(failure),
    )
  }

  #begin(): Promise<void> {
    this.#hasBegun = true
    return this.#end()
  }
}
