/** Wakes all that wait for it, each time that it is rung. */
export class Signal {
  #promise: Promise<void> | undefined
  #resolve: () => void = () => {}

  /** Resolves when it is rung next. */
  next(): Promise<void> {
    this.#promise ??= new Promise(resolve => {
      this.#resolve = resolve
    })
    return this.#promise
  }

  ring(): void {
    this.#resolve()
    this.#promise = undefined
  }
}
