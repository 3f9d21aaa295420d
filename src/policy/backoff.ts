import type { Backoff, Jitter, Policy } from './policy.js'

/**
 * The delay, in whole milliseconds, after the n-th failed attempt: backoff, cap, then jitter.
 * `random` in [0, 1) maps linearly onto the range of the jitter, its low end at 0.
 */
export function delayAfter(
  { backoff, jitter }: Policy,
  n: number,
  previousDelayMs: number | undefined,
  random: number,
): number {
  if (backoff.kind === 'decorrelated') return Math.round(decorrelated(backoff, previousDelayMs, random))
  const [low, high] = spread(jitter, plainDelay(backoff, n))
  return Math.round(low + random * (high - low))
}

/** The delay after the n-th failed attempt, before jitter. */
export function plainDelay(backoff: Exclude<Backoff, { kind: 'decorrelated' }>, n: number): number {
  switch (backoff.kind) {
    case 'none':
      return 0
    case 'fixed':
      return backoff.base
    case 'linear':
      return Math.min(backoff.base * n, backoff.max)
    case 'exponential':
      // A base of 0 stays 0: for a large n the power is infinite, and 0 · ∞ is not a number.
      return backoff.base === 0 ? 0 : Math.min(backoff.base * backoff.factor ** (n - 1), backoff.max)
  }
}

/** The range over which a jitter spreads a delay. */
export function spread(jitter: Jitter, delayMs: number): readonly [low: number, high: number] {
  switch (jitter.kind) {
    case 'none':
      return [delayMs, delayMs]
    case 'full':
      return [0, delayMs]
    case 'equal':
      return [delayMs / 2, delayMs]
    case 'proportional':
      return [delayMs * (1 - jitter.ratio), delayMs * (1 + jitter.ratio)]
  }
}

function decorrelated({ base, max }: { base: number; max: number }, previousDelayMs = base, random: number): number {
  return Math.min(max, base + random * (Math.max(base, 3 * previousDelayMs) - base))
}
