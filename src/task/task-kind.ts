import type { Returned } from '../attempt/index.js'
import { plainValue } from '../codec/internal.js'
import { isLater, isSkip, taskWork, type WorkKind } from '../engine/internal.js'
import { OptionError } from '../policy/index.js'
import { plainJson, problemOf } from '../policy/internal.js'
import { isSlotRunId, type StoreContract } from '../store/internal.js'
import { redact } from '../telemetry/index.js'
import type { TaskDefinition } from './define-task.js'
import { PayloadError } from './errors.js'
import { delayOf } from './retry-delay.js'
import { slotOfRun } from './slot-of-run.js'
import { payloadCheck, validate } from './standard-schema.js'
import { type TaskContext, taskContext } from './task-context.js'

/** A longer result belongs into a file or a table of its own. */
const MAX_RESULT = 2 ** 20

/** The tasks of a definition, as an engine runs them. */
export function taskKind(definition: TaskDefinition, store: StoreContract): WorkKind {
  const { kind, policy, policyHash, policyMax, limits, budget, onDead, codec } = definition
  if (typeof definition.handler !== 'function') {
    const advice = 'Pass what defineTask() makes of it: defineTask(task, { handler }).'
    throw new OptionError('tasks', `The task '${kind}' has no handler. ${advice}`)
  }
  return {
    kind,
    policy,
    policyHash,
    delayAfter: definition.retryDelay && delayOf(kind, definition.retryDelay),
    hasOwnTtl: policyMax?.ttl !== undefined,
    codec,
    prepare: async () => {
      if (limits !== undefined) await store.limit({ kind }, limits)
      if (budget !== undefined) await store.budgets.set({ kind }, budget)
    },
    check: payloadCheck(definition),
    describe: taskWork,
    call: (task, attempt, recorder) => {
      const payload = plainValue(task.payload, kind)
      if (!isSlotRunId(task.id)) return call(definition, payload, taskContext(task, attempt, recorder, store))
      return slotOfRun(store.schedules, task).then(slot =>
        call(definition, payload, taskContext(task, attempt, recorder, store, slot)),
      )
    },
    returned: taskResult,
    onDead,
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
  return validate(schema, payload).then(result => {
    if ('problem' in result) throw new PayloadError(kind, result.problem)
    return handler(result.value, context)
  })
}
