import type { Backoff, Jitter, Policy } from './policy.js'

/** A backoff of which each delay depends on n alone. Without a base there is no delay, without a factor no growth. */
interface PlainBackoff {
  readonly kind: Exclude<Backoff['kind'], 'decorrelated'>
  readonly base?: number
  readonly factor?: number
  readonly max?: number
  readonly delays?: readonly number[]
}

/**
 * The delay, in whole milliseconds, after the n-th failed attempt: backoff, cap, then jitter.
 * `random` in [0, 1) maps linearly onto the range of the jitter, its low end at 0.
 */
export function delayAfter(policy: Policy, n: number, previousDelayMs: number | undefined, random: number): number {
  const { backoff } = policy
  if (backoff.kind === 'decorrelated') {
    const { base, max } = backoff
    const high = Math.max(base, 3 * (previousDelayMs ?? base))
    return Math.round(Math.min(max, base + random * (high - base)))
  }
  const [low, high] = spread(policy.jitter, plainDelay(backoff, n))
  return Math.round(low + random * (high - low))
}

/** The delay after the n-th failed attempt, before jitter: a base that grows with n, or not, up to a maximum. */
export function plainDelay({ kind, base = 0, factor = 1, max = Infinity, delays }: PlainBackoff, n: number): number {
  if (delays) return delays[n - 1] ?? delays.at(-1) ?? 0
  const growth = kind === 'linear' ? n : factor ** (n - 1)
  // A base of 0 stays 0: for a large n the power is infinite, and 0 · ∞ is not a number.
  return Math.min(base * growth || 0, max)
}

/** The longest delay that a backoff comes to, before jitter. */
export function longestDelay(backoff: Backoff): number {
  if (backoff.kind === 'list') return Math.max(...backoff.delays)
  return 'max' in backoff ? backoff.max : 'base' in backoff ? backoff.base : 0
}

/** The range over which a jitter spreads a delay. */
export function spread(jitter: Jitter, delayMs: number): readonly [low: number, high: number] {
  const ratio = jitter.kind === 'proportional' ? jitter.ratio : 0
  const low = jitter.kind === 'full' ? 0 : jitter.kind === 'equal' ? 0.5 : 1 - ratio
  return [delayMs * low, delayMs * (1 + ratio)]
}
