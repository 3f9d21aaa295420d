import type { Lane } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'
import type { Answer, AttemptCounts, Ended } from '../rules/budgets/attempt-counts.js'
import {
  affordable,
  afterEnds,
  type BudgetState,
  isGating,
  nextStart,
  withSpent,
} from '../rules/budgets/budget-state.js'
import type { BudgetSettings } from '../rules/budgets/check-budget.js'
import { isCovering, type OpenGate } from '../rules/budgets/claim-gates.js'
import type { SpentWindow } from '../rules/budgets/cost-gate.js'
import { afterStarts, type Gate, isProbe, startsLeft } from '../rules/budgets/gate.js'
import type { RetryBucket } from '../rules/budgets/retry-allowance.js'
import { afterRetries, byAllowance, nextRetriesAt, retriesAllowed } from '../rules/budgets/shared-allowance.js'
import { sumOfCosts } from '../rules/sum-of-costs.js'
import { MAX_MADE_READY } from './make-ready.js'
import type { BudgetRow } from './statements/budgets.js'
import type { Statements } from './statements.js'

/** A budget, and the ends that a job has counted for it. */
interface Entry {
  budget: BudgetState
  /** By answer, failure and whether they were probes. */
  readonly ends: Map<string, { -readonly [Field in keyof Ended]: Ended[Field] }>
  readonly spent: Cost[]
}

/** The end of a run, or of several that are alike, as budgets count it. */
export interface RunEnd {
  readonly answer: Answer
  /** The failure, as `failureOf` has it. */
  readonly failure: string
  /** Whether it was a first attempt that has come to an end. */
  readonly isFirst: boolean
  readonly began: number
  readonly count?: number
}

/** The budgets that a job reads and changes, so that each is written once. */
export class BudgetBook {
  readonly #statements: Statements
  readonly #entries: readonly Entry[]
  /** The budgets of a lane, looked up once. */
  readonly #ofLanes = new Map<number, readonly Entry[]>()
  #endedAt = 0
  #hasFailures = false

  constructor(statements: Statements) {
    this.#statements = statements
    this.#entries = statements.budgets.all().map(row => ({ budget: parsedBudget(row), ends: new Map(), spent: [] }))
  }

  /** Whether any gate is open. */
  get isAnyOpen(): boolean {
    return this.#entries.some(isOpen)
  }

  /** Whether a gate may have to change for what this job has counted. */
  get isToJudge(): boolean {
    return this.#hasFailures || this.isAnyOpen
  }

  /** Whether only a claim may start tasks of a lane: its gate is open, or their cost is limited. */
  isGated(lane: number): boolean {
    return this.#entriesOf(lane).some(isGatingEntry)
  }

  /** Whether any budget bounds how many tasks start. */
  get isAnyGating(): boolean {
    return this.#entries.some(isGatingEntry)
  }

  /** Counts the end of a run, or of several, in a lane. */
  ended(lane: number, { answer, failure, isFirst, began, count = 1 }: RunEnd, now: number): void {
    this.#endedAt = now
    this.#hasFailures ||= answer === 'failed'
    const entries = this.#entriesOf(lane)
    const earning = isFirst ? this.#retryEntryOf(lane) : undefined
    for (const entry of entries) {
      const { budget, ends } = entry
      const isOneProbe = isProbe(budget.gate, began)
      const first = entry === earning ? count : 0
      if (answer === 'none' && !isOneProbe && first === 0) continue
      const name = `${isOneProbe} ${answer} ${failure}`
      const known = ends.get(name)
      if (known === undefined) ends.set(name, { answer, failure, isProbe: isOneProbe, count, first })
      else {
        known.count += count
        known.first += first
      }
    }
  }

  /** Counts what an attempt in a lane has spent. */
  spent(lane: number, used: Cost, now: number): void {
    this.#endedAt = now
    for (const { budget, spent } of this.#entriesOf(lane)) if (budget.settings.cost !== undefined) spent.push(used)
  }

  /** The id of the retry budget of a lane; `undefined` if it has none. */
  retryBudgetOf(lane: number): number | undefined {
    return this.#retryEntryOf(lane)?.budget.id
  }

  /** Lets due retries through, as many as their budgets allow. Returns whether there may be more. */
  letRetriesThrough(now: number): boolean {
    let isMore = false
    for (const entries of this.#allowances()) {
      const budgets = entries.map(({ budget }) => budget)
      const most = Math.min(MAX_MADE_READY, retriesAllowed(budgets, now))
      if (most === 0) continue
      const parts = this.#parts(entries, most, now)
      const counts = entries.map(entry => {
        const part = parts.get(entry) ?? 0
        return part === 0 ? 0 : this.#statements.letThrough.run(entry.budget.id, now, part).changes
      })
      for (const [n, budget] of afterRetries(budgets, counts, now).entries()) {
        const entry = entries[n]
        if (entry !== undefined && budget !== entry.budget) this.#write(entry, budget)
      }
      isMore ||= counts.reduce((sum, count) => sum + count, 0) === MAX_MADE_READY
    }
    return isMore
  }

  /** The budgets of retries, those that share an allowance together. */
  #allowances(): Entry[][] {
    const named = this.#entries.map(entry => ({ entry, settings: entry.budget.settings }))
    return byAllowance(named).map(sharing => sharing.map(({ entry }) => entry))
  }

  /** How many retries each of these budgets may let through, if those that were due first come first. */
  #parts(entries: readonly Entry[], most: number, now: number): ReadonlyMap<Entry, number> {
    const [only, ...others] = entries
    if (only !== undefined && others.length === 0) return new Map([[only, most]])
    const due = entries.flatMap(entry =>
      this.#statements.dueBudgeted.all(entry.budget.id, now, most).map(retry => ({ entry, ...retry })),
    )
    due.sort((a, b) => a.next_at - b.next_at || (a.id < b.id ? -1 : 1))
    const parts = new Map<Entry, number>()
    for (const { entry } of due.slice(0, most)) parts.set(entry, (parts.get(entry) ?? 0) + 1)
    return parts
  }

  /** When retries that wait under a budget are worth asking for. */
  nextRetryAt(now: number): number {
    const times = this.#allowances().map(entries => {
      const first = Math.min(...entries.map(({ budget: { id } }) => this.#statements.nextBudgeted.get(id) ?? Infinity))
      if (first > now) return first
      return nextRetriesAt(
        entries.map(({ budget }) => budget),
        now,
      )
    })
    return Math.min(Infinity, ...times)
  }

  /** The open gates, as a claim goes by them. */
  openGates(now: number): OpenGate[] {
    return this.#entries.filter(isGatingEntry).map(({ budget }) => {
      const { id, scope, gate, counts } = budget
      const running = () => this.#statements.runningIn.get({ kind: scope.kind, category: scope.category ?? null }) ?? 0
      const probes = startsLeft(gate, counts.probes, now, () => running() === 0)
      return { ...scope, id, left: Math.min(probes, affordable(budget, running, now)), started: 0 }
    })
  }

  /** Notes which tasks a claim has started. Returns when gates that let nothing through are worth asking again. */
  noteStarts(gates: readonly OpenGate[], now: number): number {
    let next = Infinity
    for (const entry of this.#entries.filter(isGatingEntry)) {
      const { left = 0, started = 0 } = gates.find(({ id }) => id === entry.budget.id) ?? {}
      const gate = isOpen(entry) ? afterStarts(entry.budget.gate, started, now) : entry.budget.gate
      if (gate !== entry.budget.gate) this.#write(entry, { ...entry.budget, gate })
      if (left <= 0) next = Math.min(next, nextStart(entry.budget, now))
    }
    return next
  }

  write(): void {
    const now = this.#endedAt
    for (const entry of this.#entries) {
      const { ends, spent } = entry
      if (ends.size === 0 && spent.length === 0) continue
      const told = { attempts: spent.length, used: sumOfCosts(spent) }
      const budget = spent.length === 0 ? entry.budget : withSpent(entry.budget, told, now)
      this.#write(entry, afterEnds(budget, [...ends.values()], now))
    }
  }

  #write(entry: Entry, budget: BudgetState): void {
    entry.budget = budget
    const { id, gate, counts, retries, spent } = budget
    const columns = [gate, counts, retries, spent].map(column => JSON.stringify(column))
    this.#statements.countBudget.run(...columns, id)
  }

  #retryEntryOf(lane: number): Entry | undefined {
    const named = this.#entriesOf(lane).filter(({ budget }) => budget.settings.retries !== undefined)
    return named.find(({ budget }) => budget.scope.category !== undefined) ?? named[0]
  }

  #entriesOf(lane: number): readonly Entry[] {
    let entries = this.#ofLanes.get(lane)
    if (entries === undefined) {
      const named: Lane | undefined = this.#statements.lane.get(lane)
      entries = named === undefined ? [] : this.#entries.filter(({ budget }) => isCovering(budget.scope, named))
      this.#ofLanes.set(lane, entries)
    }
    return entries
  }
}

/** Reads a row of the table `budget`. */
export function parsedBudget({ id, kind, category, settings, gate, counts, retries, spent }: BudgetRow): BudgetState {
  return {
    id,
    scope: { kind, ...(category !== null && { category }) },
    settings: JSON.parse(settings) as BudgetSettings,
    gate: JSON.parse(gate) as Gate,
    counts: JSON.parse(counts) as AttemptCounts,
    retries: JSON.parse(retries) as readonly RetryBucket[],
    spent: JSON.parse(spent) as readonly SpentWindow[],
  }
}

function isGatingEntry({ budget }: Entry): boolean {
  return isGating(budget)
}

function isOpen({ budget }: Entry): boolean {
  return budget.gate.since !== undefined
}
