import { type AttemptEntry, SETTLED, type Settled, type Settlement, STALE } from '../store.js'
import { column, evenColumn } from './column.js'
import { storable } from './text.js'
import { claimedBy } from './token.js'

/** What the function `settle` answers: which took effect, by their places among those of their sort, from 1 or by `n`. */
export interface SettleAnswer {
  readonly succeeded: readonly number[]
  readonly applied: readonly number[]
  readonly is_any_bounded: boolean
}

interface Success {
  readonly n: number
  readonly id: string
  readonly round: number
  readonly result: string | undefined
  readonly attempt: AttemptEntry
}

/** A batch of settlements, sorted by what there is to say of them. A token that comes twice is settled once. */
export class SettlementBatch {
  readonly #count: number
  readonly #successes: Success[] = []
  readonly #others: object[] = []
  /** How many there are of which claim. */
  readonly #claims = new Map<number, number>()

  constructor(settlements: readonly Settlement[]) {
    this.#count = settlements.length
    // A deferral says how its lane starts again, and with it all depends on the order.
    const isInOrder = settlements.some(({ outcome }) => outcome.type === 'deferred')
    const seen = new Set<string>()
    settlements.forEach((settlement, n) => {
      const { id, token, outcome, attempt } = settlement
      const key = `${token} ${id}`
      if (seen.has(key)) return
      seen.add(key)
      const { claim, round } = claimedBy(token)
      this.#claims.set(claim, (this.#claims.get(claim) ?? 0) + 1)
      if (outcome.type === 'succeeded' && attempt !== undefined && isPlain(attempt) && !isInOrder)
        this.#successes.push({ n, id, round, result: outcome.result, attempt })
      else this.#others.push(outcomeRow(settlement, round, n))
    })
  }

  /** As the function `settle` takes them. */
  get values(): (string | null)[] {
    const successes = this.#successes
    return [
      column(successes, ({ id }) => id),
      column(successes, ({ round }) => round),
      column(successes, ({ result }) => result),
      evenColumn(successes, ({ attempt }) => attempt.attempt),
      evenColumn(successes, ({ attempt }) => Math.round(attempt.startedAt)),
      evenColumn(successes, ({ attempt }) => Math.round(attempt.endedAt) - Math.round(attempt.startedAt)),
      evenColumn(successes, ({ attempt }) => attempt.worker),
      this.#others.length === 0 ? null : JSON.stringify(this.#others),
      column([...this.#claims.keys()], claim => claim),
      column([...this.#claims.values()], count => count),
    ]
  }

  results({ succeeded, applied }: SettleAnswer): Settled[] {
    const results = Array.from<Settled>({ length: this.#count }).fill(STALE)
    for (const place of succeeded) results[this.#successes[place - 1]?.n ?? 0] = SETTLED
    for (const n of applied) results[n] = SETTLED
    return results
  }
}

/** A success of which there is no more to say than when and who: it is kept in the task's own row. */
function isPlain({ verdict, error, random, policy }: AttemptEntry): boolean {
  return verdict === undefined && error === undefined && random === undefined && policy === undefined
}

/** A settlement as the function `apply` takes it. */
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
