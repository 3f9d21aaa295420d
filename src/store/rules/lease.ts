/** A lease on record. Its length is unknown in records of earlier releases. */
export interface Lease {
  readonly until: number
  readonly leaseMs?: number | undefined
}

/**
 * Whether a lease holds, so far as a reader can tell. One that ends later than twice its length from now was written by a clock
 * that was ahead of this one, and whoever wrote it would have renewed it since.
 */
export function isHeld({ until, leaseMs = Infinity }: Lease, now: number): boolean {
  return until > now && until - now <= 2 * leaseMs
}

/** A lease of this length from now on, in whole milliseconds. */
export function leaseFrom(now: number, leaseMs: number): { readonly until: number; readonly leaseMs: number } {
  const wholeMs = Math.ceil(leaseMs)
  return { until: now + wholeMs, leaseMs: wholeMs }
}
