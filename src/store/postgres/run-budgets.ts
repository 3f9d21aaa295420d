import type { Settled, Settlement } from '../contract/claim.js'
import { hasItems } from '../rules/runs/items.js'
import type { BudgetLook } from '../verbs/runs.js'
import type { Database } from './database.js'
import { claimedBy } from './token.js'

const ENDED = new Set(['succeeded', 'skipped', 'dead', 'cancelled'])

/**
 * Looks at the failure budgets of runs with the settlement that reaches their next interval, as far as this process knows: it
 * counts the items that it has settled itself. Those of others are seen by the checks that every process makes from time to
 * time; a process that works alone stops a run at the item that exceeds its budget.
 */
export class RunBudgets {
  readonly #database: Database
  readonly #look: (run: string) => Promise<BudgetLook>
  /** The runs of lanes. */
  readonly #runOf = new Map<number, string>()
  /** How many items may end before the next look at a run. */
  readonly #left = new Map<string, number>()

  constructor(database: Database, look: (run: string) => Promise<BudgetLook>) {
    this.#database = database
    this.#look = look
  }

  /** The answers, in which items tell that their run was stopped just now. */
  async withStops(settlements: readonly Settlement[], settled: Settled[]): Promise<Settled[]> {
    const lanes = settlements.map(({ token, outcome }, n) => {
      const { lane } = claimedBy(token)
      const isEnd = hasItems(lane) && settled[n]?.result === 'settled' && ENDED.has(outcome.type)
      return isEnd ? lane : undefined
    })
    if (lanes.every(lane => lane === undefined)) return settled
    try {
      const stopped = await this.#stopped(lanes.filter(lane => lane !== undefined))
      if (stopped.size === 0) return settled
      const runOf = (n: number) => this.#runOf.get(lanes[n] ?? 0) ?? ''
      return settled.map((answer, n) => (stopped.has(runOf(n)) ? { ...answer, isStopped: true } : answer))
    } catch {
      // The settlements are on record. The next check looks at the budget.
      return settled
    }
  }

  async #stopped(lanes: readonly number[]): Promise<ReadonlySet<string>> {
    const unknown = [...new Set(lanes)].filter(lane => !this.#runOf.has(lane))
    if (unknown.length > 0) {
      const rows = (await this.#database.query(RUNS_OF, [unknown])) as readonly { id: string; key: string }[]
      for (const { id, key } of rows) this.#runOf.set(Number(id), key)
    }
    const ended = new Map<string, number>()
    for (const lane of lanes) {
      const run = this.#runOf.get(lane)
      if (run !== undefined) ended.set(run, (ended.get(run) ?? 0) + 1)
    }
    const stopped = new Set<string>()
    for (const [run, count] of ended) {
      const left = (this.#left.get(run) ?? 0) - count
      this.#left.set(run, left)
      if (left > 0) continue
      const { left: next, isStopped } = await this.#look(run)
      this.#left.set(run, next)
      if (isStopped) stopped.add(run)
    }
    return stopped
  }
}

const RUNS_OF = /* sql */ `SELECT id, key FROM redrive.lane WHERE id = ANY ($1::bigint[])`
