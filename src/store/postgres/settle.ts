import { type AttemptEntry, SETTLED, type Settled, type Settlement, STALE } from '../store.js'
import { Batcher } from './batcher.js'
import { column, evenColumn } from './column.js'
import { type Database, isOutage } from './database.js'
import type { Holdings } from './holdings.js'
import { outcomeRow } from './outcome-row.js'
import type { Signals } from './signals.js'
import { claimedBy } from './token.js'

/** Settles tasks. Concurrent calls share a transaction. */
export class Settlements {
  readonly #database: Database
  readonly #signals: Signals
  readonly #holdings: Holdings
  readonly #batcher = new Batcher<Settlement, Settled>(batch => this.#send(batch), isOutage)

  constructor(database: Database, signals: Signals, holdings: Holdings) {
    this.#database = database
    this.#signals = signals
    this.#holdings = holdings
  }

  async settle(settlements: readonly Settlement[]): Promise<Settled[]> {
    if (settlements.length === 0) return []
    const settled = await this.#batcher.add(settlements)
    this.#holdings.settled(settlements.map(({ token }) => token))
    return settled
  }

  /** Resolves when all settlements under way have ended. */
  idle(): Promise<void> {
    return this.#batcher.idle()
  }

  async #send(settlements: readonly Settlement[]): Promise<Settled[]> {
    const batch = sorted(settlements)
    const answer = JSON.parse(String(await this.#database.call('settle', [...encode(batch), this.#database.at])))
    const isAnyBack = settlements.some(({ outcome }) => 'delayMs' in outcome || outcome.type === 'released')
    if (isAnyBack || (answer as SettleAnswer).is_any_bounded) this.#signals.ring()
    return decode(batch, answer, settlements.length)
  }
}

/** A batch of settlements, by the way in which each is sent. */
interface Batch {
  readonly successes: readonly Success[]
  /** All others, as the SQL function `apply` takes them. */
  readonly others: readonly object[]
  /** How many settlements belong to each claim. */
  readonly claims: ReadonlyMap<number, number>
}

/** A success whose attempt is described by its time and worker alone: it is kept in the task's own row. */
interface Success {
  /** Its position in the batch. */
  readonly n: number
  readonly id: string
  readonly round: number
  readonly result: string | undefined
  readonly attempt: AttemptEntry
}

/** The answer of the SQL function `settle`: the settlements that took effect. */
interface SettleAnswer {
  /** Positions among the successes, from 1. */
  readonly succeeded: readonly number[]
  /** The `n` of others. */
  readonly applied: readonly number[]
  readonly is_any_bounded: boolean
}

/** Sorts a batch. A token that comes twice is settled once. */
function sorted(settlements: readonly Settlement[]): Batch {
  const successes: Success[] = []
  const others: object[] = []
  const claims = new Map<number, number>()
  // A deferral decides how its lane starts again, and so the order matters.
  const isInOrder = settlements.some(({ outcome }) => outcome.type === 'deferred')
  const seen = new Set<string>()
  for (const [n, settlement] of settlements.entries()) {
    const { id, token, outcome, attempt } = settlement
    const key = `${token} ${id}`
    if (seen.has(key)) continue
    seen.add(key)
    const { claim, round } = claimedBy(token)
    claims.set(claim, (claims.get(claim) ?? 0) + 1)
    if (outcome.type === 'succeeded' && attempt !== undefined && isPlain(attempt) && !isInOrder)
      successes.push({ n, id, round, result: outcome.result, attempt })
    else others.push(outcomeRow(settlement, round, n))
  }
  return { successes, others, claims }
}

function isPlain({ verdict, error, random, policy }: AttemptEntry): boolean {
  return verdict === undefined && error === undefined && random === undefined && policy === undefined
}

function encode({ successes, others, claims }: Batch): (string | null)[] {
  return [
    column(successes, ({ id }) => id),
    column(successes, ({ round }) => round),
    column(successes, ({ result }) => result),
    evenColumn(successes, ({ attempt }) => attempt.attempt),
    evenColumn(successes, ({ attempt }) => Math.round(attempt.startedAt)),
    evenColumn(successes, ({ attempt }) => Math.round(attempt.endedAt) - Math.round(attempt.startedAt)),
    evenColumn(successes, ({ attempt }) => attempt.worker),
    others.length === 0 ? null : JSON.stringify(others),
    column([...claims.keys()], claim => claim),
    column([...claims.values()], count => count),
  ]
}

function decode({ successes }: Batch, { succeeded, applied }: SettleAnswer, count: number): Settled[] {
  const results = Array.from<Settled>({ length: count }).fill(STALE)
  for (const position of succeeded) results[successes[position - 1]?.n ?? 0] = SETTLED
  for (const n of applied) results[n] = SETTLED
  return results
}
