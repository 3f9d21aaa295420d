import { checkOptions } from '../policy/internal.js'
import type { Store } from '../store/index.js'

import { contractOf, type OperationRecord, recordRedrive, type StoreContract } from '../store/internal.js'
import { checkStep } from './check-step.js'
import { ACT_OPTIONS, type ActOptions, actOnMany } from './operations.js'
import { checkSelection, type LetterSelection } from './selection.js'

/** Who redrives, why, and how. `signal` stops it after the current batch. @inline */
export interface RedriveOptions extends ActOptions {}

/** The result of a redrive. */
export interface Redriven {
  /** How many dead letters were moved. */
  readonly moved: number
  /** The ids that were moved. Empty if an operation moved them. */
  readonly ids: readonly string[]
  /** Whether it stopped before the end: by the signal, or since too many of the first ones failed again. */
  readonly isStopped: boolean
  /** The operation that moved them; `undefined` if named letters were moved directly, or if none matched. */
  readonly operation: OperationRecord | undefined
}

type RedriveStore = Pick<
  StoreContract,
  'redrive' | 'operations' | 'audit' | 'now' | 'workers' | 'get' | 'list' | 'ledgers' | 'payloads' | 'steps'
>

/** The size of a transaction. */
const BATCH = 500

/**
 * Gives dead letters fresh attempts; their history stays. Those that are named move at once. A filter becomes an operation,
 * oldest first, which any live worker continues should this process end. Should the call fail, the same call again goes on
 * with its operation. Resolves when all of them were moved. It stops when
 * more than half of the latest ones fail again; `stopAbove` sets another share. With `patch`, each payload is changed as its
 * letter moves, and the original stays on record. `fromStep` forgets a step of each task and those after it, so that they run again,
 * and `forgetStep` that one alone.
 *
 * ```ts
 * await redriveDeadLetters(store, { filter: { errorCode: 'http_502' } }, { who: 'ada', why: 'the gateway is back' })
 * ```
 */
export async function redriveDeadLetters(
  store: Store,
  selection: LetterSelection,
  options: RedriveOptions,
): Promise<Redriven> {
  const contract = contractOf(store)
  checkSelection(selection)
  checkOptions('redriveDeadLetters()', options, ACT_OPTIONS)
  if (
    'ids' in selection &&
    (options.patch ??
      options.fromStep ??
      options.forgetStep ??
      options.canary ??
      options.stopAbove ??
      options.perSecond ??
      options.limit ??
      options.tasks) === undefined
  ) {
    return redriveNamed(contract, selection.ids, options)
  }
  const step = options.fromStep ?? options.forgetStep
  if ('ids' in selection && step !== undefined) await checkStep(contract, selection, step)
  const operation = await actOnMany(contract, 'redrive', selection, options)
  return { moved: operation?.moved ?? 0, ids: [], isStopped: operation?.status === 'stopped', operation }
}

async function redriveNamed(
  store: RedriveStore,
  named: readonly string[],
  { who, why, twin, signal, onProgress }: RedriveOptions,
): Promise<Redriven> {
  const all = [...new Set(named)]
  const by = { who, why }
  let isStopped = false
  const ids = await recordRedrive(store, all, by, async moved => {
    for (let start = 0; start < all.length; start += BATCH) {
      if (signal?.aborted) {
        isStopped = true
        return 'stopped'
      }
      moved.push(...(await store.redrive(all.slice(start, start + BATCH), by, { ...(twin && { twin }) })))
      onProgress?.(moved.length)
    }
    return 'complete'
  })
  return { moved: ids.length, ids, isStopped, operation: undefined }
}
