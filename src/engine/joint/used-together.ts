import type { Cost } from '../../store/internal.js'
import { type CostOrigin, validCost } from '../valid-cost.js'
import type { JointMember } from './joint-call.js'

/** Notes how much a call has spent. Its tasks share that. */
export function usedTogether(
  members: readonly Pick<JointMember<unknown>, 'recorder'>[],
  cost: Cost,
  origin: CostOrigin,
): void {
  const amounts = Object.entries(validCost(cost, origin))
  const share = Object.fromEntries(amounts.map(([bucket, amount]) => [bucket, amount / members.length]))
  for (const { recorder } of members) recorder.used(share)
}
