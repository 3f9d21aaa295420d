/** Buckets per doubling. Eight of them keep a percentile within 5 % of the true one. */
const PER_DOUBLING = 8

/** Percentiles of durations, in milliseconds. `null` where nothing was measured. */
export interface Percentiles {
  /** Half of them took no longer. */
  readonly p50: number | null
  /** Nine of ten took no longer. */
  readonly p90: number | null
  /** 99 of 100 took no longer. */
  readonly p99: number | null
  /** The longest. */
  readonly max: number | null
}

/** Counts durations in buckets that grow with them, so that its memory does not depend on how many there are. */
export class DurationHistogram {
  readonly #buckets: number[] = []
  #count = 0
  #max = 0

  add(ms: number): void {
    // Clocks may go backwards.
    const duration = Math.max(0, ms)
    const bucket = Math.round(Math.log2(duration + 1) * PER_DOUBLING)
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1
    this.#count++
    this.#max = Math.max(this.#max, duration)
  }

  percentiles(): Percentiles {
    if (this.#count === 0) return { p50: null, p90: null, p99: null, max: null }
    return { p50: this.#at(0.5), p90: this.#at(0.9), p99: this.#at(0.99), max: this.#max }
  }

  /** The duration that this share of all durations does not exceed. */
  #at(share: number): number {
    let left = Math.ceil(this.#count * share)
    for (const [bucket, count = 0] of this.#buckets.entries()) {
      left -= count
      if (left <= 0) return Math.min(this.#max, Math.round(2 ** (bucket / PER_DOUBLING) - 1))
    }
    return this.#max
  }
}
