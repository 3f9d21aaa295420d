import type { AttemptEntry, Settlement } from '../store.js'
import { storable } from './text.js'

/** A settlement as the SQL function `apply` takes it. `n` is its number in the batch. */
export function outcomeRow({ id, outcome, attempt }: Omit<Settlement, 'token'>, round: number, n: number): object {
  const { type } = outcome
  return {
    n,
    id,
    round,
    type,
    delay: 'delayMs' in outcome ? outcome.delayMs : undefined,
    is_backoff: type === 'retry' && outcome.isBackoff,
    result: type === 'succeeded' ? outcome.result : undefined,
    reason: 'reason' in outcome ? storable(outcome.reason) : undefined,
    ...(attempt !== undefined && attemptRow(attempt)),
  }
}

function attemptRow({ attempt, startedAt, endedAt, worker, verdict, error, random, policy }: AttemptEntry): object {
  const retryAfterMs = verdict?.class === 'rate_limited' ? verdict.retryAfterMs : undefined
  return {
    attempt,
    began: Math.round(startedAt),
    ended: Math.round(endedAt),
    worker,
    error_class: verdict?.class,
    error_code: storable(verdict?.code),
    retry_after: retryAfterMs === undefined ? undefined : Math.round(retryAfterMs),
    error: storable(error),
    random,
    policy,
  }
}
