import type { Cost } from '../store/internal.js'

/** The sum of costs, bucket by bucket. */
export function costOf(costs: readonly Cost[]): Cost {
  const sums = new Map<string, number>()
  for (const cost of costs)
    for (const [bucket, amount] of Object.entries(cost)) sums.set(bucket, (sums.get(bucket) ?? 0) + amount)
  return Object.fromEntries(sums)
}

/** A cost without the errors of floating point: the items of a batch share the cost of its call. */
export function roundedCost(cost: Cost): Cost {
  return Object.fromEntries(Object.entries(cost).map(([bucket, amount]) => [bucket, Math.round(amount * 1e6) / 1e6]))
}
