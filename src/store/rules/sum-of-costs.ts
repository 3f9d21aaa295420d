import type { Cost } from '../contract/task.js'

/** The sum of costs, bucket by bucket. */
export function sumOfCosts(costs: readonly Cost[]): Cost {
  const sums = new Map<string, number>()
  for (const cost of costs)
    for (const [bucket, amount] of Object.entries(cost)) sums.set(bucket, finite((sums.get(bucket) ?? 0) + amount))
  return Object.fromEntries(sums)
}

/** No store keeps an infinite amount, and the work that was done must not be lost for that. */
function finite(amount: number): number {
  return Math.min(amount, Number.MAX_VALUE)
}
