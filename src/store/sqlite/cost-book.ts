import type { Cost } from '../contract/task.js'
import { amountsOf } from '../rules/costs.js'
import { hourOf } from '../rules/groups/trend.js'
import type { Statements } from './statements.js'

/** What the attempts of a job have spent, collected so that each lane and bucket is written once. */
export class CostBook {
  readonly #statements: Statements
  readonly #lanes = new Map<number, Map<string, number>>()
  #now = 0

  constructor(statements: Statements) {
    this.#statements = statements
  }

  add(lane: number, used: Cost, now: number): void {
    this.#now = now
    const amounts = this.#lanes.get(lane) ?? new Map<string, number>()
    for (const [bucket, amount] of amountsOf(used)) amounts.set(bucket, (amounts.get(bucket) ?? 0) + amount)
    this.#lanes.set(lane, amounts)
  }

  write(): void {
    const hour = hourOf(this.#now)
    for (const [lane, amounts] of this.#lanes)
      for (const [bucket, amount] of amounts) this.#statements.spend.run({ lane, hour, bucket, amount })
  }
}
