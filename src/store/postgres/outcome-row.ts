import type { FailureGroup } from '../group-store.js'
import type { AttemptEntry, Cost, Settlement } from '../store.js'
import { storable } from './text.js'

/** The place of a settlement: its number in the batch, and the state in which its task must be. */
interface Place {
  readonly n: number
  readonly round: number
  readonly advances?: number
}

/**
 * A settlement as the SQL functions `apply` and `advance_tried` take it. `named` are the groups whose facts an earlier row of
 * the batch has.
 */
export function outcomeRow(
  { id, outcome, attempt }: Omit<Settlement, 'token'>,
  { n, round, advances }: Place,
  named: Set<string>,
): object {
  const { type } = outcome
  return {
    n,
    id,
    round,
    advances,
    type,
    delay: 'delayMs' in outcome ? outcome.delayMs : undefined,
    is_backoff: type === 'retry' && outcome.isBackoff,
    result: type === 'succeeded' ? outcome.result : undefined,
    reason: 'reason' in outcome ? storable(outcome.reason) : undefined,
    ...(type === 'advanced' && { to: outcome.to, value: outcome.value, cost: costText(outcome.cost) }),
    ...(attempt !== undefined && attemptRow(attempt, named)),
  }
}

/** A cost as its column has it. */
export function costText(cost: Cost | undefined): string | undefined {
  return cost && JSON.stringify(cost)
}

/** An attempt as the ledger keeps it, with the facts of its group unless those are `named` already. */
export function attemptRow(entry: AttemptEntry, named: Set<string>): object {
  const { attempt, startedAt, endedAt, worker, verdict, error, stack, random, policy, version, call, trace, release } =
    entry
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
    stack: storable(stack),
    random,
    policy,
    version,
    call,
    trace,
    release,
    ...(verdict !== undefined && entry.group !== undefined && groupRow(entry.group, named)),
  }
}

function groupRow({ id, kind, code, errorName, pattern, frames }: FailureGroup, named: Set<string>): object {
  if (named.has(id)) return { failure_group: id }
  named.add(id)
  const texts = {
    error_name: storable(errorName),
    pattern: storable(pattern),
    frames: storable(JSON.stringify(frames)),
  }
  return { failure_group: id, group: { id, kind, code: storable(code), ...texts } }
}
