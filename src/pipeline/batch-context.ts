import { type JointCall, noSteps, usedTogether } from '../engine/internal.js'
import type { Cost } from '../store/internal.js'
import { ownId } from './item-context.js'
import type { BatchContext } from './stage-context.js'

const step = noSteps('batch stages', 'Move it to a stage of its own, without a batch.')

/** A call of a batch stage, as its handler is told of it. */
export function batchContext(stage: string, { id, members, signal }: JointCall<unknown>): BatchContext {
  const context = {
    stage,
    step,
    call: id,
    items: members.map(({ task, attempt }) => ({ id: ownId(task), run: task.key, attempt: attempt.number })),
    signal,
    used: (cost: Cost) => usedTogether(members, cost, { from: 'used()', stage }),
  }
  return context
}
