import type { LedgerRow } from '../store/index.js'
import type { RunStore, TaskReader } from '../store/internal.js'
import type { Trial, TrialItem } from './trial-estimate.js'

const PAGE = 500

/** The parts of a store that a trial is read from. */
export interface TrialStore extends Pick<TaskReader, 'ledgers'> {
  readonly runs: Pick<RunStore, 'items'>
}

/** Reads how the first items of a run fared. */
export async function readTrial(
  store: TrialStore,
  run: string,
  size: number,
): Promise<Pick<Trial, 'items' | 'durationMs'>> {
  const histories: { readonly isDead: boolean; readonly rows: readonly LedgerRow[] }[] = []
  let after: string | undefined
  do {
    const limit = Math.min(PAGE, size - histories.length)
    if (limit <= 0) break
    const { items, next } = await store.runs.items(run, { limit, after })
    const ledgers = await store.ledgers(items.map(({ id }) => id))
    for (const [index, { status }] of items.entries()) {
      const rows = (ledgers[index] ?? []).filter(({ attempt }) => attempt > 0)
      histories.push({ isDead: status === 'dead', rows })
    }
    after = next
  } while (after !== undefined)
  const all = histories.flatMap(({ rows }) => rows)
  const sizes = batchSizes(all)
  const items = histories.map(
    ({ isDead, rows }): TrialItem => ({
      isDead,
      calls: rows.reduce((sum, { call }) => sum + 1 / ((call !== undefined && sizes.get(call)) || 1), 0),
      retries: rows.filter(({ outcome }) => outcome === 'retry').length,
    }),
  )
  return { items, durationMs: durationOf(all) }
}

/** Items of one call of a batch stage share it. */
function batchSizes(rows: readonly LedgerRow[]): ReadonlyMap<string, number> {
  const sizes = new Map<string, number>()
  for (const { call } of rows) if (call !== undefined) sizes.set(call, (sizes.get(call) ?? 0) + 1)
  return sizes
}

function durationOf(rows: readonly LedgerRow[]): number {
  let [first, last] = [Infinity, -Infinity]
  for (const { startedAt, endedAt } of rows) {
    first = Math.min(first, startedAt)
    last = Math.max(last, endedAt)
  }
  return Math.max(0, last - first)
}
