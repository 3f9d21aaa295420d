import type { CostField, CostTotal } from '../contract/cost.js'
import type { Lane } from '../contract/lane.js'
import type { Cost } from '../contract/task.js'

/** An amount of one bucket, of attempts that agree in some fields. */
export interface CostRow extends Partial<Lane> {
  readonly bucket: string
  readonly amount: number
}

/** As much as a settlement adds: far below the largest number, so that no sum exceeds that. PostgreSQL has it too. */
const MAX_AMOUNT = 1e300

/** The amounts of a settlement, as they are added to the costs of its lane. */
export function amountsOf(used: Cost): (readonly [bucket: string, amount: number])[] {
  return Object.entries(used).map(([bucket, amount]) => [bucket, Math.min(amount, MAX_AMOUNT)] as const)
}

/** Adds up amounts that agree in all fields, with the buckets in the order of their names. */
export function addUpCosts(rows: Iterable<CostRow>, by: readonly CostField[]): CostTotal[] {
  const totals = new Map<string, { readonly fields: Partial<Lane>; readonly used: Map<string, number> }>()
  for (const row of rows) {
    const fields = Object.fromEntries(by.map(field => [field, row[field] ?? '']))
    const name = JSON.stringify(by.map(field => fields[field]))
    const total = totals.get(name) ?? { fields, used: new Map<string, number>() }
    total.used.set(row.bucket, (total.used.get(row.bucket) ?? 0) + row.amount)
    totals.set(name, total)
  }
  const sorted = (used: ReadonlyMap<string, number>) =>
    Object.fromEntries([...used].sort(([a], [b]) => (a < b ? -1 : 1)))
  return [...totals.values()].map(({ fields, used }) => ({ ...fields, used: sorted(used) }))
}

/** The columns to add costs up by, for SQL. */
export function costColumns(by: readonly CostField[]): string {
  return [...by, 'bucket'].join(', ')
}
