import type { Returned } from '../attempt/index.js'
import { plainValue } from '../codec/internal.js'
import { isLater, isSkip, type KindOptions, taskWork, type WorkKind } from '../engine/internal.js'
import { OptionError } from '../policy/index.js'
import { plainJson, problemOf } from '../policy/internal.js'
import { isSlotRunId, type StoreContract } from '../store/internal.js'
import { redact } from '../telemetry/index.js'
import type { AnyDefinition, TaskDefinition } from './define-task.js'
import { jointKind } from './joint-kind.js'
import { delayOf } from './retry-delay.js'
import { slotOfRun } from './slot-of-run.js'
import { payloadCheck, validPayload } from './standard-schema.js'
import { type TaskContext, taskContext } from './task-context.js'

/** A longer result belongs into a file or a table of its own. */
const MAX_RESULT = 2 ** 20

/** The tasks of a definition, as an engine runs them. */
export function taskKind(definition: AnyDefinition, store: StoreContract, options: KindOptions = {}): WorkKind {
  const { kind, policyMax, limits, budget, onDead, codec } = definition
  if (typeof definition.handler !== 'function') {
    const advice = 'Pass what defineTask() makes of it: defineTask(task, { handler }).'
    throw new OptionError('tasks', `The task '${kind}' has no handler. ${advice}`)
  }
  return {
    kind,
    delayAfter: definition.retryDelay && delayOf(kind, definition.retryDelay),
    hasOwnTtl: policyMax?.ttl !== undefined,
    codec,
    prepare: async () => {
      if (limits !== undefined) await store.limit({ kind }, limits)
      if (budget !== undefined) await store.budgets.set({ kind }, budget)
    },
    check: payloadCheck(definition),
    describe: taskWork,
    returned: taskResult,
    onDead,
    ...(definition.together === undefined ? singleKind(definition, store) : jointKind(definition, store, options)),
  }
}

/** The part of a kind of work that tasks have which are called one by one. */
function singleKind(
  definition: TaskDefinition,
  store: StoreContract,
): Pick<WorkKind, 'policy' | 'policyHash' | 'call'> {
  const { kind, policy, policyHash } = definition
  return {
    policy,
    policyHash,
    call: (task, attempt, recorder) => {
      const payload = plainValue(task.payload, kind)
      if (!isSlotRunId(task.id)) return call(definition, payload, taskContext(task, attempt, recorder, store))
      return slotOfRun(store.schedules, task).then(slot =>
        call(definition, payload, taskContext(task, attempt, recorder, store, slot)),
      )
    },
  }
}

/**
 * Says what a handler's result asks for. Never throws: the work is done, and no result may cause it to be done again. In
 * place of a result that JSON cannot hold, or that is too long for a record, the reason for that is kept.
 */
export function taskResult(result: unknown): Returned {
  try {
    if (isLater(result)) return { type: 'later', delayMs: result.delayMs }
    if (isSkip(result)) return { type: 'skipped', reason: result.reason.slice(0, 1000) }
    const text = plainJson(result)
    if (text !== undefined && text.length > MAX_RESULT)
      throw new RangeError(`It is ${text.length} characters long, and ${MAX_RESULT} are allowed`)
    return { type: 'succeeded', value: text }
  } catch (error) {
    return { type: 'succeeded', reason: redact(problemOf(error)) }
  }
}

function call({ kind, schema, handler }: TaskDefinition, payload: unknown, context: TaskContext): unknown {
  if (schema === undefined) return handler(payload, context)
  return validPayload(kind, schema, payload).then(value => handler(value, context))
}
