import { OptionError } from '../policy/index.js'
import type { Store, TaskFilter } from '../store/index.js'
import { type Clock, sleep, systemClock } from '../time/index.js'

/** Which dead letters: those named, those that match a filter, or all of them, which has to be said. */
export type RedriveSelection =
  | { readonly ids: readonly string[] }
  | { readonly filter: Omit<TaskFilter, 'status'> }
  | { readonly all: true }

/** Who redrives, why, and how fast. */
export interface RedriveOptions {
  /** Who asked for it, for the record. */
  readonly who: string
  /** Why, for the record. */
  readonly why?: string
  /** So many per second at most, so that what failed under load does not come back all at once. Default: no limit. */
  readonly perSecond?: number
  /** Stops it after the batch that is under way. Called again, it goes on with the rest. */
  readonly signal?: AbortSignal
  /** Called after each batch with how many were moved so far. */
  readonly onProgress?: (moved: number) => void
  /** Where time comes from. Default: the machine. */
  readonly clock?: Clock
}

/** What a redrive came to. */
export interface Redriven {
  /** Those that were moved. */
  readonly ids: readonly string[]
  /** Whether it was stopped before it had come to the end. */
  readonly isStopped: boolean
}

/** What the audit keeps of a redrive: one record when it starts, and one when it ends, however it ends. */
export interface RedriveRecord {
  readonly event_type: 'redrive_started' | 'redrive_ended'
  /** The same in both. */
  readonly operation_id: string
  readonly who: string
  readonly why: string | null
  /** How many were named, what they had to match, or `all`. */
  readonly selection: { readonly named: number } | { readonly filter: Omit<TaskFilter, 'status'> } | 'all'
  readonly moved: number
  readonly end: 'complete' | 'stopped' | 'failed' | null
  /** ISO 8601, in UTC. */
  readonly timestamp: string
}

type RedriveStore = Pick<Store, 'redrive' | 'list' | 'audit' | 'now'>

/** How many are moved in one transaction; fewer under a rate, so that they come evenly. */
const BATCH = 500
const BATCHES_PER_SECOND = 10

/**
 * Gives dead letters fresh attempts, batch by batch, and puts on record who did it, when, why, to which and to how many.
 * Their history stays.
 *
 * ```ts
 * await redriveDeadLetters(store, { filter: { errorCode: 'http_502' } }, { who: 'ada', why: 'the gateway is back' })
 * ```
 */
export async function redriveDeadLetters(
  store: RedriveStore,
  selection: RedriveSelection,
  { who, why, perSecond = Infinity, signal, onProgress, clock = systemClock }: RedriveOptions,
): Promise<Redriven> {
  checkSelection(selection)
  if (!(perSecond > 0)) throw new OptionError('perSecond', `'perSecond' must be above 0, got ${perSecond}.`)
  const operation = { operation_id: crypto.randomUUID(), who, why: why ?? null, selection: onRecord(selection) }
  const note = async (event_type: RedriveRecord['event_type'], moved: number, end: RedriveRecord['end']) => {
    const timestamp = new Date(await store.now()).toISOString()
    const record: RedriveRecord = { event_type, ...operation, moved, end, timestamp }
    await store.audit.append([JSON.stringify(record)])
  }

  const ids: string[] = []
  let isStopped = false
  const startedAt = clock.monotonic()
  await note('redrive_started', 0, null)
  try {
    const batch = Math.max(1, Math.min(BATCH, Math.floor(perSecond / BATCHES_PER_SECOND)))
    for await (const letters of batches(store, selection, batch)) {
      const earlyMs = startedAt + (ids.length * 1000) / perSecond - clock.monotonic()
      if (earlyMs > 0) await sleep(earlyMs, clock, signal).catch(() => {})
      isStopped = signal?.aborted === true
      if (isStopped) break
      ids.push(...(await store.redrive(letters, { who, why })))
      onProgress?.(ids.length)
    }
  } catch (error) {
    // The store may be away: what was moved is on record with each of them.
    await note('redrive_ended', ids.length, 'failed').catch(() => {})
    throw error
  }
  await note('redrive_ended', ids.length, isStopped ? 'stopped' : 'complete')
  return { ids, isStopped }
}

/**
 * The ids, a transaction's worth at a time. Pages go from the newest to the oldest, so that one that is redriven and dies
 * again meanwhile does not come by a second time.
 */
async function* batches(store: RedriveStore, selection: RedriveSelection, size: number): AsyncGenerator<string[]> {
  if ('ids' in selection) {
    const ids = [...new Set(selection.ids)]
    for (let start = 0; start < ids.length; start += size) yield ids.slice(start, start + size)
    return
  }
  const filter: TaskFilter = { ...('filter' in selection ? selection.filter : {}), status: 'dead' }
  let after: string | undefined
  do {
    const { items, next } = await store.list(filter, { limit: size, after })
    yield items.map(({ id }) => id)
    after = next
  } while (after !== undefined)
}

/** A filter that came out empty by mistake must not mean everything. */
function checkSelection(selection: RedriveSelection): void {
  if (!('filter' in selection) || Object.values(selection.filter).some(value => value !== undefined)) return
  throw new OptionError('filter', 'The filter is empty: say { all: true } to redrive every dead letter.')
}

function onRecord(selection: RedriveSelection): RedriveRecord['selection'] {
  if ('ids' in selection) return { named: new Set(selection.ids).size }
  return 'filter' in selection ? { filter: selection.filter } : 'all'
}
