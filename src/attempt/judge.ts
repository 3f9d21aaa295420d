import { classify, decide, decideLoss, identityRandom, RetryableError, type Verdict } from '../policy/index.js'
import type { Environment, Failed, Plan } from './plan.js'

const LOST: Verdict = { class: 'retryable', code: 'lost' }

/** Classifies a failure and asks the kernel what follows. The same plan, failure and time always give the same answer. */
export function judge(plan: Plan, failure: unknown, { clock, classify: classifier }: Environment): Failed {
  const { seed, policy, history } = plan
  const verdict = classify(failure, policy, clock.now(), classifier)
  const random = identityRandom(seed, history.attempts + 1)
  const askedMs = plan.delayAfter?.(failure, verdict)
  const decision = decide(policy, history, verdict, { now: plan.now(), random, delayMs: askedMs })
  return { type: 'failed', failure, verdict, random, askedMs, decision }
}

/** Asks the kernel what follows from an attempt whose worker died. `plan.history` is what was on record before the loss. */
export function judgeLoss(plan: Plan): Failed {
  const { seed, policy, history } = plan
  const failure = new RetryableError('The worker died.', { code: LOST.code })
  const random = identityRandom(seed, history.attempts + 1)
  const decision = decideLoss(policy, history, plan.now())
  return { type: 'failed', failure, verdict: LOST, random, decision, isLoss: true }
}
