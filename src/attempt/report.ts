import { type AttemptEvent, emit } from '../telemetry/internal.js'

import { RefusedError } from './errors.js'
import type { End, Environment, Plan } from './plan.js'

/** An event without what every event of an attempt says. */
export type Details<E = AttemptEvent> = E extends AttemptEvent
  ? Omit<E, 'work' | 'at' | 'attempt' | 'maxAttempts'>
  : never

/** Tells the sink of an attempt. */
export function tell(
  plan: Plan,
  details: Details,
  { sink, clock }: Environment,
  attempt = plan.history.attempts + 1,
): void {
  if (sink === undefined) return
  const { traceId } = plan
  const work = traceId === undefined ? plan.work() : { ...plan.work(), traceId }
  emit(sink, { work, at: clock.now(), attempt, maxAttempts: plan.policy.attempts, ...details })
}

/** Tells the sink how an attempt ended. Called once the end is on its way to where it is recorded. */
export function report(plan: Plan, end: End, durationMs: number, environment: Environment): void {
  switch (end.type) {
    case 'succeeded':
    case 'advanced': {
      const totalMs = plan.now() - plan.history.startedAt
      tell(plan, { type: 'attempt_succeeded', durationMs, totalMs }, environment)
      if (end.type === 'succeeded' && end.reason !== undefined)
        tell(plan, { type: 'result_not_kept', reason: end.reason }, environment)
      return
    }
    case 'failed': {
      const { failure, verdict, decision, step } = end
      // A step has told of its own attempts.
      if (step !== undefined && decision.action !== 'give_up') return
      const about = { durationMs, failure, verdict }
      if (decision.action === 'give_up')
        return tell(plan, { type: 'gave_up', ...about, reason: decision.reason }, environment)
      const { delayMs } = decision
      const type = decision.action === 'retry' ? 'retry_scheduled' : 'deferred'
      return tell(plan, { type, ...about, delayMs, nextAttemptAt: plan.now() + delayMs }, environment)
    }
    case 'refused': {
      const { reason } = end
      const about = {
        durationMs: 0,
        failure: new RefusedError(reason),
        verdict: { class: 'final', code: reason },
      } as const
      return tell(plan, { type: 'gave_up', ...about, reason }, environment, plan.history.attempts)
    }
    case 'skipped':
      return tell(plan, { type: 'skipped', durationMs, reason: end.reason }, environment)
    case 'later':
    case 'stopped':
      return
  }
}
