import { OptionError } from '../policy/index.js'
import type { By, Store } from '../store/index.js'
import { recordRedrive } from '../store/internal.js'
import { type Clock, sleep, systemClock } from '../time/index.js'
import { selectedIds } from './selected-ids.js'
import { checkSelection, type LetterSelection, selectionOnRecord } from './selection.js'

/** Who redrives, why, and how fast. */
export interface RedriveOptions extends By {
  /** Maximum rate, so that work that failed under load does not come back all at once. Default: no limit. */
  readonly perSecond?: number
  /** Stops the redrive after the current batch. Call it again to continue with the rest. */
  readonly signal?: AbortSignal
  /** Called after each batch with the number moved so far. */
  readonly onProgress?: (moved: number) => void
  /** Default: the machine's clock. */
  readonly clock?: Clock
}

/** The result of a redrive. */
export interface Redriven {
  /** The dead letters that were moved. */
  readonly ids: readonly string[]
  /** Whether the signal stopped it before the end. */
  readonly isStopped: boolean
}

type RedriveStore = Pick<Store, 'redrive' | 'list' | 'audit' | 'now'>

/** The size of a transaction. Under a rate it is smaller, so that the work comes evenly. */
const BATCH = 500
const BATCHES_PER_SECOND = 10

/**
 * Gives dead letters fresh attempts, batch by batch, and puts the operation on record: who, when, why, which and how
 * many. Their history stays.
 *
 * ```ts
 * await redriveDeadLetters(store, { filter: { errorCode: 'http_502' } }, { who: 'ada', why: 'the gateway is back' })
 * ```
 */
export async function redriveDeadLetters(
  store: RedriveStore,
  selection: LetterSelection,
  { who, why, perSecond = Infinity, signal, onProgress, clock = systemClock }: RedriveOptions,
): Promise<Redriven> {
  checkSelection(selection)
  if (!(perSecond > 0)) throw new OptionError('perSecond', `'perSecond' must be above 0, got ${perSecond}.`)
  let isStopped = false
  const by = { who, why }
  const ids = await recordRedrive(store, selectionOnRecord(selection), by, async moved => {
    const startedAt = clock.monotonic()
    const size = Math.max(1, Math.min(BATCH, Math.floor(perSecond / BATCHES_PER_SECOND)))
    for await (const batch of selectedIds(store, selection, size)) {
      const earlyMs = startedAt + (moved.length * 1000) / perSecond - clock.monotonic()
      if (earlyMs > 0) await sleep(earlyMs, clock, signal).catch(() => {})
      isStopped = signal?.aborted === true
      if (isStopped) return 'stopped'
      moved.push(...(await store.redrive(batch, by)))
      onProgress?.(moved.length)
    }
    return 'complete'
  })
  return { ids, isStopped }
}
