import { loadTimetables, readSlots } from '../engine/internal.js'
import { OptionError } from '../policy/index.js'
import { checkOptions, type KnownOptions, quoted } from '../policy/internal.js'
import type { By, Store } from '../store/index.js'
import { contractOf, HAS_RUN, type OperationRecord, type OperationSettings } from '../store/internal.js'
import type { Clock } from '../time/index.js'
import { findSame, runUntilStopped } from './operations.js'
import { known, type SlotView, slotView } from './schedules.js'

/** The slots to backfill: from a time on, and before another one. @inline */
export interface BackfillRange {
  /** The first moment, in milliseconds since the epoch. */
  readonly from: number
  /** The first moment after it. It may not be in the future. */
  readonly to: number
}

/** The effect that a backfill would have now. Nothing is changed. */
export interface BackfillPlan {
  /** The slots of the range that would run, and how they ended. */
  readonly slots: readonly SlotView[]
  /** How many slots of the range have run. */
  readonly haveRun: number
  /** Slots that would be left alone, by reason. */
  readonly refused: readonly { readonly reason: string; readonly count: number }[]
}

/** More slots are a mistyped range rather than work that somebody wants. */
const MAX_BACKFILL = 10_000

/** Plans a backfill: which slots of a range have not run, and how they ended. */
export async function planBackfill(store: Store, name: string, range: BackfillRange): Promise<BackfillPlan> {
  const contract = contractOf(store)
  const record = await known(store, name)
  checkRange(range, (await contract.schedules.next()).now)
  const table = (await loadTimetables())(record)
  const slots: SlotView[] = []
  const refused = new Map<string, number>()
  for (let after: number | undefined = range.from - 1; after !== undefined; ) {
    const page = await readSlots(contract, name, table, { after, to: range.to })
    for (const { slot, localTime, record: ended } of page.open) {
      const missed = { end: 'missed', reason: 'it is not on record' } as const
      const { end, reason } = ended ?? missed
      slots.push(slotView({ schedule: name, slot, localTime, generation: record.generation, at: slot, end, reason }))
    }
    for (const [reason, count] of Object.entries(page.refused)) refused.set(reason, (refused.get(reason) ?? 0) + count)
    if (slots.length > MAX_BACKFILL)
      throw new OptionError('from', `The range has more than ${MAX_BACKFILL} slots. Backfill a part of it at a time.`)
    after = page.last
  }
  const haveRun = refused.get(HAS_RUN) ?? 0
  refused.delete(HAS_RUN)
  return { slots, haveRun, refused: [...refused].map(([reason, count]) => ({ reason, count })) }
}

function checkRange(range: BackfillRange, now: number): void {
  for (const bound of ['from', 'to'] as const) {
    if (!Number.isFinite(range[bound]))
      throw new OptionError(bound, `'${bound}' must be milliseconds since the epoch, got ${quoted(range[bound])}.`)
  }
  if (range.from > now) {
    const start = new Date(range.from).toISOString()
    throw new OptionError(
      'from',
      `A backfill begins in the past, and ${start} is in the future: its slots will be fired.`,
    )
  }
  if (!(range.from < range.to)) throw new OptionError('to', 'A backfill goes from an earlier time to a later one.')
  if (range.to > now) throw new OptionError('to', 'A backfill ends now at the latest: later slots will be fired.')
}

/** Who starts a backfill, why, and how it goes about it. */
export interface StartBackfillOptions extends By, Pick<OperationSettings, 'perSecond' | 'limit'> {
  /**
   * How many of its runs may be unfinished at a time. Default: one, if runs of the schedule must not overlap, and otherwise
   * any number.
   */
  readonly atOnce?: number | undefined
}

/** Options of `backfillSchedule`. `signal` stops it after the current batch. */
export interface BackfillOptions extends StartBackfillOptions {
  /** Stops it after the current step. Continue its operation for the rest. */
  readonly signal?: AbortSignal | undefined
  /** Called with the number of runs started so far. */
  readonly onProgress?: ((started: number) => void) | undefined
  /** Default: the system clock. */
  readonly clock?: Clock | undefined
}

const START_OPTIONS: KnownOptions<StartBackfillOptions> = { who: '', why: '', perSecond: '', limit: '', atOnce: '' }
const BACKFILL_OPTIONS: KnownOptions<BackfillOptions> = {
  ...START_OPTIONS,
  signal: 'object',
  onProgress: 'function',
  clock: 'object',
}

/**
 * Creates an operation that starts the runs of slots that have not run, for the live workers to carry out. If one is under way
 * that the same call has created, it is returned instead; `undefined`, and creates none, if all slots of the range have run.
 */
export async function startBackfill(
  store: Store,
  name: string,
  range: BackfillRange,
  options: StartBackfillOptions,
): Promise<OperationRecord | undefined> {
  checkOptions('startBackfill()', options, START_OPTIONS)
  return create(store, name, range, options)
}

/** The result of a backfill. */
export interface Backfilled {
  /** How many runs were started. */
  readonly started: number
  /** Whether the signal or an operator stopped it before the end. */
  readonly isStopped: boolean
  /** The operation that started them; `undefined` if all slots of the range had run. */
  readonly operation: OperationRecord | undefined
}

/**
 * Starts the runs of slots that have not run, by an operation that can be stopped, continued and undone. A second time it adds
 * nothing.
 *
 * ```ts
 * await backfillSchedule(store, 'nightly-report', { from, to }, { who: 'ada', perSecond: 5 })
 * ```
 */
export async function backfillSchedule(
  store: Store,
  name: string,
  range: BackfillRange,
  { signal, onProgress, clock, ...options }: BackfillOptions,
): Promise<Backfilled> {
  checkOptions('backfillSchedule()', { ...options, signal, onProgress, clock }, BACKFILL_OPTIONS)
  const created = await create(store, name, range, options)
  if (created === undefined) return { started: 0, isStopped: false, operation: undefined }
  const onStep = ({ moved }: OperationRecord) => onProgress?.(moved)
  const { who } = options
  const run = { signal, onProgress: onStep, clock }
  const operation = await runUntilStopped(contractOf(store), created.id, { who }, run)
  return { started: operation.moved, isStopped: operation.status === 'stopped', operation }
}

async function create(
  store: Store,
  name: string,
  range: BackfillRange,
  { who, why, perSecond, limit, atOnce }: StartBackfillOptions,
): Promise<OperationRecord | undefined> {
  const contract = contractOf(store)
  const { generation, overlap } = await known(store, name)
  const { slots } = await planBackfill(store, name, range)
  const bound = atOnce ?? (overlap === 'allow' ? undefined : 1)
  const settings = {
    ...(perSecond !== undefined && { perSecond }),
    ...(limit !== undefined && { limit }),
    ...(bound !== undefined && { atOnce: bound }),
  }
  const set = { schedule: name, generation, from: range.from, to: range.to, count: slots.length }
  const wanted = { act: 'backfill', set, by: { who, why }, settings } as const
  const same = await findSame(contract, wanted)
  return same ?? (slots.length === 0 ? undefined : contract.operations.create(wanted))
}
