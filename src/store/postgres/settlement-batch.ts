import { SETTLED, type Settled, type Settlement, STALE } from '../contract/claim.js'
import type { AttemptEntry } from '../contract/ledger.js'
import { column, columnsJson, evenColumn, textColumn } from './columns.js'
import { attemptDetails, costText, Reports } from './outcome-row.js'
import { type Claimed, claimedBy, tokenOf } from './token.js'

/** The answer of the SQL function `settle`. */
export type SettleAnswer = { readonly is_order_needed: true } | SettledAnswer

interface SettledAnswer {
  /** Positions in the columns, from 1. */
  readonly settled: readonly number[]
  readonly kept: readonly number[]
  /** Advances that are repeated, each with the time at which the item advanced. */
  readonly kept_before: readonly (readonly [position: number, now: number])[] | null
  /** The lanes that items advanced to. */
  readonly to_lanes: readonly number[] | null
  /** The `n` of others. */
  readonly applied: readonly number[]
  readonly now: number
  readonly is_any_bounded: boolean
  readonly is_any_budget: boolean
  readonly is_any_gate_open: boolean
  readonly is_any_refusal: boolean
}

/** A settlement that is sent column by column: an advance, or a plain success, which is kept in the task's own row. */
interface Row {
  /** Its position in the batch. */
  readonly n: number
  readonly id: string
  readonly claimed: Claimed
  readonly text: string | undefined
  readonly attempt: AttemptEntry | undefined
  readonly advance: Advance | undefined
}

interface Advance {
  /** The position, from 1, of its next lane. */
  readonly next: number
  readonly keep: boolean
  readonly cost: string | undefined
  /** The verdict of its attempt, and whatever else a column has no place for. */
  readonly details: object | undefined
}

/** Settlements, sorted by the way in which each is sent. A token that comes twice is settled once. */
export class SettlementBatch {
  readonly #rows: Row[] = []
  readonly #others = new Reports()
  /** What attempts have spent. */
  readonly #uses: object[] = []
  /** How many successes and others belong to each claim. */
  readonly #claims = new Map<number, number>()
  /** The lanes that items advance to: their category, and the lane that an item is in before. */
  readonly #nexts = new Map<string, { readonly n: number; readonly lane: number; readonly category: string }>()
  readonly #size: number

  constructor(settlements: readonly Settlement[]) {
    this.#size = settlements.length
    // A deferral decides how its lane starts again, and so the order matters.
    const isInOrder = settlements.some(({ outcome }) => outcome.type === 'deferred')
    const seen = new Set<string>()
    for (const [n, settlement] of settlements.entries()) {
      const key = `${settlement.token} ${settlement.id}`
      if (seen.has(key)) continue
      seen.add(key)
      this.#add(settlement, n, isInOrder)
    }
  }

  #add(settlement: Settlement, n: number, isInOrder: boolean): void {
    const { id, token, outcome, attempt, used } = settlement
    const claimed = claimedBy(token)
    if (used !== undefined) this.#uses.push({ id, round: claimed.round, advances: claimed.advances, used })
    if (outcome.type === 'advanced') {
      const { to, value, keep, cost } = outcome
      const details = attempt === undefined || isPlain(attempt) ? undefined : attemptDetails(attempt)
      const advance = { next: this.#next(claimed.lane, to), keep, cost: costText(cost), details }
      this.#rows.push({ n, id, claimed, text: value, attempt, advance })
      return
    }
    this.#claims.set(claimed.claim, (this.#claims.get(claimed.claim) ?? 0) + 1)
    const isSuccess = outcome.type === 'succeeded' && outcome.reason === undefined
    if (isSuccess && attempt !== undefined && isPlain(attempt) && !isInOrder)
      this.#rows.push({ n, id, claimed, text: outcome.result, attempt, advance: undefined })
    else {
      const { round, advances } = claimed
      this.#others.add(settlement, { n, round, advances })
    }
  }

  #next(lane: number, category: string): number {
    const name = `${lane} ${category}`
    let next = this.#nexts.get(name)
    if (next === undefined) {
      next = { n: this.#nexts.size + 1, lane, category }
      this.#nexts.set(name, next)
    }
    return next.n
  }

  /** The arguments of the SQL function `settle`, but for the time. The type `settlement_columns` says what the columns mean. */
  encode(): (string | null)[] {
    const rows = this.#rows
    const isAnyLeft = rows.some(({ advance }) => advance?.keep === false)
    const columns = {
      ids: column(rows, ({ id }) => id),
      rounds: column(rows, ({ claimed }) => claimed.round),
      advances: evenColumn(rows, ({ claimed }) => claimed.advances),
      lanes: evenColumn(rows, ({ claimed }) => claimed.lane),
      attempts: evenColumn(rows, ({ attempt }) => attempt?.attempt ?? 0),
      began: evenColumn(rows, ({ attempt }) => Math.round(attempt?.startedAt ?? 0)),
      took: evenColumn(rows, ({ attempt }) => Math.round(attempt?.endedAt ?? 0) - Math.round(attempt?.startedAt ?? 0)),
      workers: evenColumn(rows, ({ attempt }) => attempt?.worker ?? ''),
      versions: evenColumn(rows, ({ attempt }) => attempt?.version),
      calls: evenColumn(rows, ({ attempt }) => attempt?.call),
      releases: evenColumn(rows, ({ attempt }) => attempt?.release),
      nexts: column(rows, ({ advance }) => advance?.next),
      keeps: isAnyLeft ? column(rows, ({ advance }) => advance?.keep) : undefined,
      costs: column(rows, ({ advance }) => advance?.cost),
      details: column(rows, ({ advance }) => advance?.details),
      item_claims: column(rows, ({ advance, claimed }) => advance && claimed.claim),
      next_lanes: this.#nexts.size === 0 ? undefined : [...this.#nexts.values()],
      uses: this.#uses.length === 0 ? undefined : this.#uses,
      claims: [...this.#claims.keys()],
      counts: [...this.#claims.values()],
    }
    return [columnsJson(columns, { others: this.#others.encode() }), textColumn(rows, ({ text }) => text)]
  }

  decode({ settled, kept, kept_before, to_lanes, applied, now }: SettledAnswer): Settled[] {
    const results = Array.from<Settled>({ length: this.#size }).fill(STALE)
    const set = (position: number, answer: (row: Row) => Settled) => {
      const row = this.#rows[position - 1]
      if (row !== undefined) results[row.n] = answer(row)
    }
    const keptAt = (now: number) => (row: Row) => {
      const lane = to_lanes?.[(row.advance?.next ?? 0) - 1] ?? 0
      const advances = row.claimed.advances + 1
      return { result: 'kept' as const, token: tokenOf({ ...row.claimed, lane, advances }), now }
    }
    for (const position of settled) set(position, () => SETTLED)
    for (const position of kept) set(position, keptAt(now))
    for (const [position, then] of kept_before ?? []) set(position, keptAt(then))
    for (const n of applied) results[n] = SETTLED
    return results
  }
}

function isPlain({ verdict, error, random, policy, trace, notes }: AttemptEntry): boolean {
  return (
    verdict === undefined &&
    error === undefined &&
    random === undefined &&
    policy === undefined &&
    trace === undefined &&
    notes === undefined
  )
}
