import type { Failed } from '../../attempt/index.js'
import { advance, type GiveUpReason, type History } from '../../policy/index.js'
import { type StepAttempt, type StepRecord, withAttempt } from '../../store/internal.js'

/** When an attempt at a step began and ended, and who made it. */
export type AttemptTimes = Pick<StepAttempt, 'startedAt' | 'endedAt' | 'worker'>

/** A step as it is on record. After a redrive of its task its counters begin anew, and its ledger goes on. */
export function continued(name: string, record: StepRecord | undefined, since: number, now: number): StepRecord {
  if (record?.since === since) return record
  const ledger = record?.ledger ?? []
  return { name, isDone: false, result: undefined, since, startedAt: now, attempts: 0, deferrals: 0, ledger }
}

/** The record of a step before its next attempt, as the kernel takes it. */
export function historyOf({ attempts, deferrals, startedAt, previousDelayMs }: StepRecord): History {
  return { attempts, deferrals, startedAt, ...(previousDelayMs !== undefined && { previousDelayMs }) }
}

export function afterSuccess(step: StepRecord, result: string | undefined, times: AttemptTimes): StepRecord {
  const entry: StepAttempt = { attempt: step.attempts + 1, ...times, outcome: 'succeeded' }
  return { ...step, isDone: true, result, nextAt: undefined, ledger: withAttempt(step.ledger, entry) }
}

/** `error` is the text of the failure, and `policy` the hash of the policy that decided. */
export function afterFailure(
  step: StepRecord,
  failed: Failed,
  error: string,
  policy: string,
  times: AttemptTimes,
): StepRecord {
  const { verdict, random, decision } = failed
  const { attempts, deferrals, previousDelayMs } = advance(historyOf(step), verdict, decision)
  const about = { attempt: step.attempts + 1, ...times, verdict, error, random, policy }
  const counted = { ...step, attempts, deferrals, previousDelayMs }
  if (decision.action === 'give_up') {
    const ledger = withAttempt(step.ledger, { ...about, outcome: 'gave_up' })
    return { ...counted, nextAt: undefined, gaveUp: decision.reason, ledger }
  }
  const { action, delayMs, at } = decision
  const entry: StepAttempt = { ...about, outcome: action === 'defer' ? 'deferred' : 'retry', delayMs }
  return { ...counted, nextAt: Math.ceil(at), ledger: withAttempt(step.ledger, entry) }
}

/** After its time to live was found to be over, so that no attempt was made. */
export function afterRefusal(step: StepRecord, reason: GiveUpReason): StepRecord {
  return { ...step, nextAt: undefined, gaveUp: reason }
}

const NAMED = /^([^\s:]{1,100}): /

/** A failure that is known from its record alone: its text is the recorded one. */
export function recordedFailure(text: string): Error {
  const [head = '', name] = NAMED.exec(text) ?? []
  const failure = new Error(text.slice(head.length))
  if (name !== undefined) failure.name = name
  // Of no use to anybody: it leads to the code that has read the record.
  failure.stack = ''
  return failure
}
