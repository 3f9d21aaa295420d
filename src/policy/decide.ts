import { delayAfter } from './backoff.js'
import type { Decision, GiveUpReason, History, Policy, Verdict } from './policy.js'

/** The inputs of a decision besides policy, history and verdict. On record with it, so that it can be recomputed. */
export interface Circumstances {
  /** The time on the scale of the history, in milliseconds. */
  readonly now: number
  /** A number in [0, 1) that places the delay within its jitter. */
  readonly random: number
  /** The delay that the code of the work asks for in place of the backoff. A wait that a rate limit asks for goes before it. */
  readonly delayMs?: number | undefined
  /** Whether the caller no longer wants the work. */
  readonly aborted?: boolean | undefined
  /** Whether the retry budget that this work shares is empty. */
  readonly budgetEmpty?: boolean | undefined
}

/**
 * Decides what happens after a failed attempt. Nothing else decides. It is pure: the same arguments always give the same
 * decision. The stop rules stand in their order.
 */
export function decide(policy: Policy, history: History, verdict: Verdict, circumstances: Circumstances): Decision {
  const attempt = history.attempts + 1
  const hintMs = hint(verdict)
  const deferred = hintMs !== undefined && history.deferrals < policy.deferrals

  if (circumstances.aborted) return giveUp('aborted')
  if (verdict.class === 'final') return giveUp('final_error')
  if (!deferred && attempt >= policy.attempts) return giveUp('attempts_exhausted')

  const delayMs =
    hintMs ?? circumstances.delayMs ?? delayAfter(policy, attempt, history.previousDelayMs, circumstances.random)
  const at = circumstances.now + delayMs
  const late = refusal(policy, history, at, attempt)
  if (late) return giveUp(late)
  if (circumstances.budgetEmpty) return giveUp('budget_empty')
  return { action: deferred ? 'defer' : 'retry', delayMs, at }
}

/**
 * Decides what happens after a worker died while running the work. `history` is what was on record before that. A loss
 * costs no attempt: the work runs again at once, until its losses are used up.
 */
export function decideLoss(policy: Policy, history: History, now: number): Decision {
  if ((history.losses ?? 0) + 1 >= policy.losses) return giveUp('losses_exhausted')
  const late = refusal(policy, history, now)
  return late ? giveUp(late) : { action: 'retry', delayMs: 0, at: now }
}

/**
 * Says why an attempt must not start now, or `undefined` if it may. A time to live bounds every start, the first one
 * included; a time to live of 0 means one attempt, whenever that starts.
 */
export function refusal(
  policy: Policy,
  history: History,
  now: number,
  attempts = history.attempts,
): GiveUpReason | undefined {
  const isOver = now >= history.startedAt + (policy.ttl ?? Infinity)
  if (isOver && (policy.ttl || attempts || history.deferrals)) return 'ttl_expired'
  return now >= (history.deadline ?? Infinity) ? 'deadline_passed' : undefined
}

/** The history of work that begins now: nothing has failed yet. */
export function begin(startedAt: number, deadline?: number): History {
  return { attempts: 0, deferrals: 0, startedAt, deadline, previousDelayMs: undefined }
}

/** The history after a decision was carried out. A deferral costs no attempt, and a hint never stretches the backoff. */
export function advance(history: History, verdict: Verdict, decision: Decision): History {
  const { losses, startedAt, deadline } = history
  const isDeferral = decision.action === 'defer'
  const attempts = history.attempts + (isDeferral ? 0 : 1)
  const deferrals = history.deferrals + (isDeferral ? 1 : 0)
  const isBackoff = decision.action === 'retry' && hint(verdict) === undefined
  const previousDelayMs = isBackoff ? decision.delayMs : history.previousDelayMs
  // Written out: a spread takes as long as the decision itself.
  return { attempts, deferrals, startedAt, deadline, previousDelayMs, losses }
}

/** How long an attempt that starts now may run. A time to live only keeps it from starting; a deadline cuts it short. */
export function allowance(policy: Policy, history: History, now: number): number {
  return Math.min(policy.timeout ?? Infinity, (history.deadline ?? Infinity) - now)
}

function hint(verdict: Verdict): number | undefined {
  return verdict.class === 'rate_limited' ? verdict.retryAfterMs : undefined
}

function giveUp(reason: GiveUpReason): Decision {
  return { action: 'give_up', reason }
}
