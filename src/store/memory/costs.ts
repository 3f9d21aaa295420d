import type { CostFilter } from '../contract/cost.js'
import type { Lane } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'
import { amountsOf, type CostRow } from '../rules/costs.js'
import { hourOf } from '../rules/groups/trend.js'
import { matches } from './lane-rules.js'

interface HourlyCost extends Lane, CostRow {
  readonly kind: string
  readonly category: string
  readonly key: string
  readonly hour: number
}

/** What attempts have spent, by lane, hour and bucket. */
export class MemoryCosts {
  readonly #rows = new Map<string, HourlyCost>()

  add({ kind, category, key }: Lane, used: Cost, now: number): void {
    const hour = hourOf(now)
    for (const [bucket, more] of amountsOf(used)) {
      const name = JSON.stringify([kind, category, key, hour, bucket])
      const amount = (this.#rows.get(name)?.amount ?? 0) + more
      this.#rows.set(name, { kind, category, key, hour, bucket, amount })
    }
  }

  /** The rows that match. */
  rows({ since = 0, ...lanes }: CostFilter): CostRow[] {
    return [...this.#rows.values()].filter(row => row.hour >= hourOf(since) && matches(lanes, row))
  }

  /** Forgets the hours before a time. */
  prune(before: number): void {
    for (const [name, { hour }] of this.#rows) if (hour < hourOf(before)) this.#rows.delete(name)
  }
}
