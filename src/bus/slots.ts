/** Limits concurrency: at most `limit` pieces of work run at once, and the others wait in order. */
export class Slots {
  #free: number
  readonly #limit: number
  readonly #waiting: (() => void)[] = []
  readonly #idle: (() => void)[] = []

  constructor(limit: number) {
    this.#free = this.#limit = limit
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--
    else await new Promise<void>(resolve => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      this.#pass()
    }
  }

  /** Resolves once nothing runs and nothing waits. */
  async idle(): Promise<void> {
    if (this.#free < this.#limit) await new Promise<void>(resolve => this.#idle.push(resolve))
  }

  #pass(): void {
    const next = this.#waiting.shift()
    if (next !== undefined) return void next()
    this.#free++
    if (this.#free === this.#limit) for (const wake of this.#idle.splice(0)) wake()
  }
}
