import { type JointCall, usedTogether } from '../engine/internal.js'
import { ownId } from './item-context.js'
import type { BatchContext } from './stage-context.js'

/** A call of a batch stage, as its handler is told of it. */
export function batchContext(stage: string, { id, members, signal }: JointCall<unknown>): BatchContext {
  return {
    stage,
    call: id,
    items: members.map(({ task, attempt }) => ({ id: ownId(task), run: task.key, attempt: attempt.number })),
    signal,
    used: cost => usedTogether(members, cost, { from: 'used()', stage }),
  }
}
