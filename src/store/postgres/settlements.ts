import type { AttemptEntry, Settlement } from '../store.js'
import { storable } from './text.js'

/** Settlements as the function `settle` takes them, each with its number. */
export interface SettlementRows {
  readonly successes: readonly object[]
  readonly others: readonly object[]
}

/** Sorts settlements by what there is to say of them. A token that comes twice is settled once. */
export function settlementRows(settlements: readonly Settlement[]): SettlementRows {
  const successes: object[] = []
  const others: object[] = []
  const seen = new Set<string>()
  settlements.forEach((settlement, n) => {
    const { id, token, outcome, attempt } = settlement
    const key = `${token} ${id}`
    if (seen.has(key)) return
    seen.add(key)
    if (outcome.type === 'succeeded' && attempt !== undefined && isPlain(attempt))
      successes.push({ n, id, token, result: outcome.result, ...timesOf(attempt) })
    else others.push(outcomeRow(settlement, n))
  })
  return { successes, others }
}

/** A success of which there is no more to say than when and who: it is kept in the task's own row. */
function isPlain({ verdict, error, random, policy }: AttemptEntry): boolean {
  return verdict === undefined && error === undefined && random === undefined && policy === undefined
}

function timesOf({ attempt, startedAt, endedAt, worker }: AttemptEntry): object {
  return { attempt, began: Math.round(startedAt), ended: Math.round(endedAt), worker }
}

/** A settlement as the function `apply` takes it. */
export function outcomeRow({ id, token, outcome, attempt }: Settlement, n: number): object {
  const { type } = outcome
  return {
    n,
    id,
    token,
    type,
    delay: 'delayMs' in outcome ? outcome.delayMs : undefined,
    is_backoff: type === 'retry' && outcome.isBackoff,
    result: type === 'succeeded' ? outcome.result : undefined,
    reason: 'reason' in outcome ? storable(outcome.reason) : undefined,
    ...(attempt !== undefined && { ...timesOf(attempt), ...factsOf(attempt) }),
  }
}

function factsOf({ verdict, error, random, policy }: AttemptEntry): object {
  const retryAfterMs = verdict?.class === 'rate_limited' ? verdict.retryAfterMs : undefined
  return {
    error_class: verdict?.class,
    error_code: storable(verdict?.code),
    retry_after: retryAfterMs === undefined ? undefined : Math.round(retryAfterMs),
    error: storable(error),
    random,
    policy,
  }
}
