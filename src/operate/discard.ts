import { checkOptions } from '../policy/internal.js'
import type { Store } from '../store/index.js'

import { contractOf, isItem, type OperationRecord } from '../store/internal.js'
import { getTasks } from './get-tasks.js'
import { ACT_OPTIONS, type ActOptions, actOnMany } from './operations.js'
import { planRedrive, type RedrivePlan } from './plan-redrive.js'
import { ofRun } from './refusal.js'
import { checkSelection, filterOf, type LetterSelection } from './selection.js'

/** The effect that discarding would have now. Nothing is changed. */
export interface DiscardPlan extends RedrivePlan {
  /** Dead items of pipelines that match. They are left alone, since their run counts its dead. */
  readonly items: number
}

/** Who discards, and why. `signal` stops it after the current batch. */
export interface DiscardOptions extends ActOptions {
  /** The reason, which a discard must have. */
  readonly why: string
}

/** The result of discarding. */
export interface Discarded {
  /** How many dead letters were discarded. */
  readonly discarded: number
  /** The ids that were discarded. Empty if an operation discarded them. */
  readonly ids: readonly string[]
  /** Whether the signal stopped it before the end. */
  readonly isStopped: boolean
  /** The operation that discarded them; `undefined` if they were named, or if none matched. */
  readonly operation: OperationRecord | undefined
}

/** The size of a transaction. */
const BATCH = 500

/** Plans to discard dead letters, with a sample of `sampleSize` (20 by default). */
export async function planDiscard(
  store: Store,
  selection: LetterSelection,
  options: { readonly sampleSize?: number } = {},
): Promise<DiscardPlan> {
  const contract = contractOf(store)
  const { count, sample, refused } = await planRedrive(contract, selection, options)
  const kept = sample.filter(letter => !isItem(letter))
  if ('ids' in selection) {
    const items: string[] = []
    for await (const { id, task } of getTasks(contract, selection.ids))
      if (task?.status === 'dead' && isItem(task)) items.push(id)
    return {
      count: count - items.length,
      sample: kept,
      refused: [...refused, ...items.map(ofRun)],
      items: items.length,
    }
  }
  const byKind = await contract.countBy(filterOf(selection), ['kind'])
  const items = byKind.filter(isItem).reduce((sum, each) => sum + each.count, 0)
  return { count: count - items, sample: kept, refused, items }
}

/**
 * Gives dead letters up for good. Those that are named change at once; a filter becomes an operation. They become
 * `cancelled`, keep their error and their history, and say who discarded them and why; retention deletes them with other
 * ended work.
 *
 * ```ts
 * await discardDeadLetters(store, { filter: { kind: 'charge' } }, { who: 'ada', why: 'refunded by hand' })
 * ```
 */
export async function discardDeadLetters(
  store: Store,
  selection: LetterSelection,
  options: DiscardOptions,
): Promise<Discarded> {
  const contract = contractOf(store)
  checkSelection(selection)
  checkOptions('discardDeadLetters()', options, ACT_OPTIONS)
  if (!('ids' in selection)) {
    const operation = await actOnMany(contract, 'discard', selection, options)
    return { discarded: operation?.moved ?? 0, ids: [], isStopped: operation?.status === 'stopped', operation }
  }
  const { who, why, signal, onProgress } = options
  const all = [...new Set(selection.ids)]
  const ids: string[] = []
  for (let start = 0; start < all.length; start += BATCH) {
    if (signal?.aborted) return { discarded: ids.length, ids, isStopped: true, operation: undefined }
    ids.push(...(await contract.discard(all.slice(start, start + BATCH), { who, why })))
    onProgress?.(ids.length)
  }
  return { discarded: ids.length, ids, isStopped: false, operation: undefined }
}
