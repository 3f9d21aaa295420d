import type { Cost } from '../store/internal.js'

/** A cost without the errors of floating point: the items of a batch share the cost of its call. */
export function roundedCost(cost: Cost): Cost {
  return Object.fromEntries(Object.entries(cost).map(([bucket, amount]) => [bucket, Math.round(amount * 1e6) / 1e6]))
}
