import { isObject, quoted } from '../policy/internal.js'
import { type Cost, storableName, sumOfCosts } from '../store/internal.js'

/** Where amounts come from: the option or function that named them, and its stage or task. */
export type CostOrigin = { readonly from: 'cost' | 'used()' } & ({ readonly stage: string } | { readonly task: string })

const warned = new Set<string>()

/**
 * The amounts that a store takes: finite numbers, 0 or more. Others are left out, with one warning per stage or task: they come
 * from a response that lacks a field, say, and the work that was done must not be lost for that.
 */
export function validCost(cost: unknown, origin: CostOrigin): Cost {
  if (!isObject(cost)) {
    warn(origin, cost)
    return {}
  }
  const entries = Object.entries(cost).map(([bucket, amount]) => [storableName(bucket), amount] as const)
  const valid = entries.filter((entry): entry is readonly [string, number] => isAmount(entry[1]))
  const invalid = entries.find(([, amount]) => !isAmount(amount))
  if (invalid !== undefined) warn(origin, invalid[1], invalid[0])
  // Names may be the same once they can be stored.
  return sumOfCosts(valid.map(([bucket, amount]) => ({ [bucket]: amount })))
}

function isAmount(amount: unknown): amount is number {
  return typeof amount === 'number' && Number.isFinite(amount) && amount >= 0
}

function warn({ from, ...of }: CostOrigin, got: unknown, bucket?: string): void {
  const whose = 'stage' in of ? `stage '${of.stage}'` : `task '${of.task}'`
  const key = `${from} ${whose}`
  if (warned.has(key)) return
  warned.add(key)
  const what = bucket === undefined ? 'an object with numbers' : `a number, 0 or more, for ${quoted(bucket)}`
  const problem = `The ${from} of the ${whose} needs ${what}, got ${quoted(got)}. It is ignored, here and from now on.`
  process.emitWarning(problem, { type: 'RedriveWarning', code: 'cost_invalid' })
}
