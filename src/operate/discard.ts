import type { By, Store, TaskReader } from '../store/index.js'
import { isItem } from './is-item.js'
import { planRedrive, type RedrivePlan } from './plan-redrive.js'
import { ofRun } from './refusal.js'
import { selectedIds } from './selected-ids.js'
import { checkSelection, filterOf, type LetterSelection } from './selection.js'

/** The effect that discarding would have now. Nothing is changed. */
export interface DiscardPlan extends RedrivePlan {
  /** Dead items of pipelines that match. They are left alone, since their run counts its dead. */
  readonly items: number
}

/** Who discards, and why. */
export interface DiscardOptions extends Required<By> {
  /** Stops it after the current batch. Call it again to continue with the rest. */
  readonly signal?: AbortSignal
  /** Called after each batch with the number discarded so far. */
  readonly onProgress?: (discarded: number) => void
}

/** The result of discarding. */
export interface Discarded {
  /** The dead letters that were discarded. */
  readonly ids: readonly string[]
  /** Whether the signal stopped it before the end. */
  readonly isStopped: boolean
}

/** The size of a transaction. */
const BATCH = 500

/** Plans to discard dead letters, with a sample of `sampleSize` (20 by default). */
export async function planDiscard(
  store: TaskReader,
  selection: LetterSelection,
  options: { readonly sampleSize?: number } = {},
): Promise<DiscardPlan> {
  const { count, sample, refused } = await planRedrive(store, selection, options)
  const kept = sample.filter(letter => !isItem(letter))
  if ('ids' in selection) {
    const named = await Promise.all([...new Set(selection.ids)].map(id => store.get(id)))
    const items = named.filter(task => task?.status === 'dead' && isItem(task)).flatMap(task => task?.id ?? [])
    return {
      count: count - items.length,
      sample: kept,
      refused: [...refused, ...items.map(ofRun)],
      items: items.length,
    }
  }
  const byKind = await store.countBy(filterOf(selection), ['kind'])
  const items = byKind.filter(isItem).reduce((sum, each) => sum + each.count, 0)
  return { count: count - items, sample: kept, refused, items }
}

/**
 * Gives dead letters up for good, batch by batch. They become `cancelled`, keep their error and their history, and say who
 * discarded them and why; retention deletes them with other ended work.
 *
 * ```ts
 * await discardDeadLetters(store, { filter: { kind: 'charge' } }, { who: 'ada', why: 'refunded by hand' })
 * ```
 */
export async function discardDeadLetters(
  store: Pick<Store, 'discard' | 'list'>,
  selection: LetterSelection,
  { who, why, signal, onProgress }: DiscardOptions,
): Promise<Discarded> {
  checkSelection(selection)
  const ids: string[] = []
  for await (const batch of selectedIds(store, selection, BATCH)) {
    if (signal?.aborted) return { ids, isStopped: true }
    if (batch.length > 0) ids.push(...(await store.discard(batch, { who, why })))
    onProgress?.(ids.length)
  }
  return { ids, isStopped: false }
}
