import { plainValue } from '../codec/internal.js'
import {
  JointCalls,
  type KindOptions,
  noSteps,
  policyOfMember,
  usedTogether,
  type WorkKind,
} from '../engine/internal.js'
import { RedriveError } from '../policy/index.js'
import { type ClaimedTask, isSlotRunId, type StoreContract } from '../store/internal.js'
import { queueClock } from '../time/index.js'
import type { JointContext, JointDefinition } from './joint-task.js'
import { slotOfRun } from './slot-of-run.js'
import { validPayload } from './standard-schema.js'
import { type TaskContext, taskContext } from './task-context.js'

/** A task that waits for its call. */
interface JointInput {
  readonly payload: unknown
  readonly context: TaskContext
}

/** The part of a kind of work that tasks have which are called together. */
export function jointKind(
  definition: JointDefinition,
  store: StoreContract,
  { clock = queueClock, classify }: KindOptions,
): Pick<WorkKind, 'places' | 'policy' | 'policyHash' | 'call'> {
  const { kind, policy, together } = definition
  const { size, concurrency } = together
  const joint = new JointCalls<JointInput>(
    {
      name: kind,
      policy,
      ...together,
      handler: ({ id, members, signal }) => {
        const context: JointContext = {
          call: id,
          tasks: members.map(({ input }) => input.context),
          signal,
          used: cost => usedTogether(members, cost, { from: 'used()', task: kind }),
        }
        return definition.handler(
          members.map(({ input }) => input.payload),
          context,
        )
      },
      wrongResult: (expected, returned) => wrongResult(kind, expected, returned),
    },
    clock,
    classify,
  )
  return {
    ...policyOfMember(policy),
    places: { concurrency, tasksPerCall: size },
    // Whatever is wrong with a task alone shows before its call, and fails no others.
    call: async (task, attempt, recorder) => {
      const payload = await payloadOf(definition, task)
      const slot = isSlotRunId(task.id) ? await slotOfRun(store.schedules, task) : undefined
      const context = Object.assign(taskContext(task, attempt, recorder, store, slot), { step: refuseStep })
      return joint.add(task, { payload, context }, attempt, recorder)
    },
  }
}

async function payloadOf({ kind, schema }: JointDefinition, task: ClaimedTask): Promise<unknown> {
  const payload = plainValue(task.payload, kind)
  return schema === undefined ? payload : validPayload(kind, schema, payload)
}

const refuseStep = noSteps(
  'tasks that are called together',
  "Leave out 'together', or enqueue a task of another kind that has the step.",
)

function wrongResult(kind: string, expected: number, returned: unknown): RedriveError {
  const got = Array.isArray(returned) ? `${returned.length} results` : `no list, but ${typeof returned}`
  const problem = `The handler of the task '${kind}' got ${expected} payloads and returned ${got}.`
  return new RedriveError('call_result_invalid', `${problem} Return one result for each payload, in their order.`)
}
