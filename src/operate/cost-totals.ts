import type { Store } from '../store/index.js'
import { type Cost, type CostField, type CostFilter, contractOf, itemKind, type RunRecord } from '../store/internal.js'
import { roundedCost } from './cost.js'

/** The cost of attempts that agree in some fields, as plain JSON. */
export type CostTotalView = Partial<Record<CostField, string>> & {
  /** How much they took from each bucket, as `used()` said. */
  readonly used: Cost
}

/**
 * Adds up what attempts have spent, as `used()` said, by the kind, category or key of their tasks: the stage of an item is its
 * category, its run is its key.
 *
 * ```ts
 * await costTotals(store, { kind: 'summarize' }, ['key']) // [{ key: 'tenant-7', used: { tokens: 1250 } }]
 * ```
 *
 * Attempts count whatever became of them and of their tasks, also after those were pruned.
 */
export async function costTotals(store: Store, filter: CostFilter, by: readonly CostField[]): Promise<CostTotalView[]> {
  const totals = await contractOf(store).costs(filter, by)
  const views = totals.map(({ used, ...fields }) => ({ ...fields, used: roundedCost(used) }))
  const name = (view: CostTotalView) => JSON.stringify(by.map(field => view[field]))
  return views.sort((a, b) => (name(a) < name(b) ? -1 : 1))
}

/** The cost of a run's attempts, by stage. */
export async function costByStage(
  store: Store,
  { id, pipeline }: Pick<RunRecord, 'id' | 'pipeline'>,
): Promise<ReadonlyMap<string, Cost>> {
  const totals = await costTotals(store, { kind: itemKind(pipeline), key: id }, ['category'])
  return new Map(totals.map(({ category = '', used }) => [category, used]))
}
