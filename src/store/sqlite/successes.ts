import { type Outcome, SETTLED, type Settled, type Settlement } from '../contract/claim.js'
import type { AttemptEntry } from '../contract/ledger.js'
import { hasItems } from '../rules/runs/items.js'
import type { LaneBook } from './lane-book.js'
import { isPlain } from './ledger.js'
import type { Statements } from './statements.js'
import type { Place } from './token.js'

/** Below this number, a statement for each task costs less. */
const MIN_ALIKE = 4

/** With more sorts of successes, comparing them would cost more than writing them together saves. */
const MAX_SORTS = 16

/** A range costs less than a list if one of this many tasks in it is meant. */
const MAX_SPREAD = 4

/** A success whose attempt is described by its times, worker, version, call and release alone. */
export type PlainSuccess = Settlement & {
  readonly outcome: Extract<Outcome, { readonly type: 'succeeded' }>
  readonly attempt: AttemptEntry
}

/** Whether a settlement is a plain success, as most are. */
export function isPlainSuccess(settlement: Settlement): settlement is PlainSuccess {
  const { outcome, attempt } = settlement
  return outcome.type === 'succeeded' && outcome.reason === undefined && attempt !== undefined && isPlain(attempt)
}

interface Member {
  readonly settlement: Settlement
  readonly place: Place
  /** The position of the settlement, and of the answer to it. */
  readonly position: number
}

/** Successes that differ in nothing but their tasks. */
interface Sort {
  readonly place: Place
  readonly attempt: AttemptEntry
  readonly members: Member[]
}

/**
 * Collects the plain successes of a job that have no result, and writes those that are alike in one statement: one by
 * one they cost twice as much. Their place in the order of settlements is lost, so it collects none while the end of a
 * task may let another one start.
 */
export class Successes {
  readonly #statements: Statements
  readonly #book: LaneBook
  readonly #now: number
  readonly #sorts: Sort[] = []
  readonly #seqs = new Set<number>()

  constructor(statements: Statements, book: LaneBook, now: number) {
    this.#statements = statements
    this.#book = book
    this.#now = now
  }

  /** Whether a settlement has to wait until those that were taken are written. */
  isBlocking({ seq }: Place): boolean {
    return this.#seqs.size > 0 && (this.#book.isAnyBounded || this.#seqs.has(seq))
  }

  /** Takes a settlement, if it is one to collect. */
  takes(settlement: Settlement, place: Place, position: number): boolean {
    // Items of runs have results as a rule, and are counted when they end.
    if (!isPlainSuccess(settlement) || hasItems(place.lane) || this.#book.isAnyBounded) return false
    if (settlement.outcome.result !== undefined || settlement.used !== undefined) return false
    const sort = this.#sortOf(place, settlement.attempt)
    if (sort === undefined) return false
    sort.members.push({ settlement, place, position })
    this.#seqs.add(place.seq)
    return true
  }

  /** Writes those that were taken. `settleOne` settles those that cannot be written together. */
  write(answers: Settled[], settleOne: (settlement: Settlement, place: Place) => Settled): void {
    for (const sort of this.#sorts) {
      const isWritten = sort.members.length >= MIN_ALIKE && this.#writeAll(sort)
      for (const { settlement, place, position } of sort.members)
        answers[position] = isWritten ? SETTLED : settleOne(settlement, place)
    }
    this.#sorts.length = 0
    this.#seqs.clear()
  }

  /** Writes nothing and returns `false` if one of the tokens does not hold. */
  #writeAll({ place, attempt, members }: Sort): boolean {
    members.sort((a, b) => a.place.seq - b.place.seq)
    const seqs = members.map(member => member.place.seq)
    const ids = members.map(member => member.settlement.id).join('\0')
    if (!(this.#writeRange(place, attempt, seqs, ids) || this.#writeList(place, attempt, seqs, ids))) return false
    this.#book.move(place.lane, 'running', 'succeeded', seqs.length)
    const isFirst = attempt.attempt === 1
    const began = attempt.startedAt
    this.#book.told(place.lane, { answer: 'ok', failure: '', isFirst, began, count: seqs.length }, this.#now)
    return true
  }

  /**
   * Writes them as a range, which takes half the time of a list. Returns `false` if they are too few in it, or not all that
   * are running there in the same claim.
   */
  #writeRange({ lane, claim }: Place, attempt: AttemptEntry, seqs: readonly number[], ids: string): boolean {
    const [first = 0, last = 0] = [seqs[0], seqs.at(-1)]
    if (last - first >= MAX_SPREAD * seqs.length) return false
    const batch = [first, last, claim, lane] as const
    const [running, grouped] = this.#statements.runningBetween.get(...batch) ?? [null, 0]
    if (running !== ids) return false
    this.#leaveGroups(seqs, grouped)
    this.#statements.succeedBetween.run(this.#now, null, ...successColumns(attempt), ...batch)
    return true
  }

  /** Returns `false` if one of the tokens does not hold. */
  #writeList({ lane, claim }: Place, attempt: AttemptEntry, seqs: readonly number[], ids: string): boolean {
    const json = JSON.stringify(seqs)
    const [running, grouped] = this.#statements.runningAmong.get(json, claim, lane) ?? [null, 0]
    if (running !== ids) return false
    this.#leaveGroups(seqs, grouped)
    this.#statements.succeedAmong.run(this.#now, null, ...successColumns(attempt), json)
    return true
  }

  /** Takes tasks out of their failure groups, if some of them have one. */
  #leaveGroups(seqs: readonly number[], grouped: number): void {
    if (grouped === 0) return
    const groups = this.#statements.groupsOf.all(JSON.stringify(seqs))
    for (const [group, count] of groups) this.#book.groups.leave(group, 'running', this.#now, count)
  }

  /** The sort of a success; `undefined` if there are too many. */
  #sortOf(place: Place, attempt: AttemptEntry): Sort | undefined {
    const { lane, claim } = place
    const isSame = (other: Place) => other.lane === lane && other.claim === claim
    const known = this.#sorts.find(sort => isSame(sort.place) && areAlike(sort.attempt, attempt))
    if (known !== undefined || this.#sorts.length === MAX_SORTS) return known
    const sort = { place, attempt, members: [] }
    this.#sorts.push(sort)
    return sort
  }
}

/** The columns of a success, from `ran_from` to `release`. */
export function successColumns({ startedAt, endedAt, attempt, worker, version, call, release }: AttemptEntry) {
  const times = [Math.round(startedAt), Math.round(endedAt)] as const
  return [...times, attempt, worker, version ?? null, call ?? null, release ?? null] as const
}

function areAlike(a: AttemptEntry, b: AttemptEntry): boolean {
  return (
    Math.round(a.endedAt) === Math.round(b.endedAt) &&
    Math.round(a.startedAt) === Math.round(b.startedAt) &&
    a.attempt === b.attempt &&
    a.worker === b.worker &&
    a.version === b.version &&
    a.call === b.call &&
    a.release === b.release
  )
}
