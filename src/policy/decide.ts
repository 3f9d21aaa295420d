import { delayAfter } from './backoff.js'
import type { Decision, GiveUpReason, History, Policy, Verdict } from './policy.js'

/** What a decision depends on besides policy, history and verdict. On record with it, so that it can be recomputed. */
export interface Circumstances {
  readonly now: number
  /** In [0, 1): places the delay within its jitter. */
  readonly random: number
  /** The caller no longer wants the work. */
  readonly aborted?: boolean
  /** The retry budget that this work shares has nothing left. */
  readonly budgetEmpty?: boolean
}

/**
 * What happens after a failed attempt. The only place that decides, and pure: the same arguments always give the same
 * decision. The stop rules stand in their order.
 */
export function decide(policy: Policy, history: History, verdict: Verdict, circumstances: Circumstances): Decision {
  const attempt = history.attempts + 1
  const hintMs = hint(verdict)
  const deferred = hintMs !== undefined && history.deferrals < policy.deferrals

  if (circumstances.aborted) return giveUp('aborted')
  if (verdict.class === 'final') return giveUp('final_error')
  if (!deferred && attempt >= policy.attempts) return giveUp('attempts_exhausted')

  const delayMs = hintMs ?? delayAfter(policy, attempt, history.previousDelayMs, circumstances.random)
  const at = circumstances.now + delayMs
  if (at >= history.startedAt + (policy.ttl ?? Infinity)) return giveUp('ttl_expired')
  if (at >= (history.deadline ?? Infinity)) return giveUp('deadline_passed')
  if (circumstances.budgetEmpty) return giveUp('budget_empty')
  return { action: deferred ? 'defer' : 'retry', delayMs, at }
}

/** The history of work that begins now: nothing has failed yet. */
export function begin(startedAt: number, deadline?: number): History {
  return { attempts: 0, deferrals: 0, startedAt, deadline, previousDelayMs: undefined }
}

/** The history once a decision has been carried out. A deferral costs no attempt, and a hint never stretches the backoff. */
export function advance(history: History, verdict: Verdict, decision: Decision): History {
  if (decision.action === 'defer') return { ...history, deferrals: history.deferrals + 1 }
  const isBackoff = decision.action === 'retry' && hint(verdict) === undefined
  const previousDelayMs = isBackoff ? decision.delayMs : history.previousDelayMs
  return { ...history, attempts: history.attempts + 1, previousDelayMs }
}

/** How long an attempt that starts now may run. The time to live only stops it from starting; a deadline cuts it short. */
export function allowance(policy: Policy, history: History, now: number): number {
  return Math.min(policy.timeout ?? Infinity, (history.deadline ?? Infinity) - now)
}

function hint(verdict: Verdict): number | undefined {
  return verdict.class === 'rate_limited' ? verdict.retryAfterMs : undefined
}

function giveUp(reason: GiveUpReason): Decision {
  return { action: 'give_up', reason }
}
