const SECONDS = 60

/** Counts occurrences in the last minute, to the second, in a ring with a count for each second. */
export class MinuteCount {
  readonly #counts = new Array<number>(SECONDS).fill(0)
  /** The latest second in the ring. */
  #second = 0
  #total = 0

  /** Counts one occurrence. `now` is in milliseconds on a monotonic clock. */
  add(now: number): void {
    this.#advance(now)
    const slot = this.#second % SECONDS
    this.#counts[slot] = (this.#counts[slot] ?? 0) + 1
    this.#total++
  }

  count(now: number): number {
    this.#advance(now)
    return this.#total
  }

  /** Empties the seconds that are over a minute old. */
  #advance(now: number): void {
    const second = Math.floor(now / 1000)
    const passed = Math.min(second - this.#second, SECONDS)
    for (let i = 0; i < passed; i++) {
      const slot = (second - i) % SECONDS
      this.#total -= this.#counts[slot] ?? 0
      this.#counts[slot] = 0
    }
    this.#second = Math.max(this.#second, second)
  }
}
