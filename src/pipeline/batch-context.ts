import { type JointCall, validCost } from '../engine/internal.js'
import type { Cost } from '../store/internal.js'
import { ownId } from './item-context.js'
import type { BatchContext } from './stage-context.js'

/** A call of a batch stage, as its handler is told of it. */
export function batchContext(stage: string, { id, members, signal }: JointCall<unknown>): BatchContext {
  return {
    stage,
    call: id,
    items: members.map(({ task, attempt }) => ({ id: ownId(task), run: task.key, attempt: attempt.number })),
    signal,
    used(cost) {
      const share = shareOf(validCost(cost, { from: 'used()', stage }), members.length)
      for (const { recorder } of members) recorder.used(share)
    },
  }
}

function shareOf(cost: Cost, count: number): Cost {
  return Object.fromEntries(Object.entries(cost).map(([bucket, amount]) => [bucket, amount / count]))
}
