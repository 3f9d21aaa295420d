import { driveOperation, type OutsideTarget, PAYLOAD_INVALID, refusalOf } from '../engine/internal.js'
import { canonicalJson, RetryableError } from '../policy/index.js'
import type { KnownOptions } from '../policy/internal.js'
import type { By, Store } from '../store/index.js'
import {
  AGES,
  checkNewOperation,
  checkPatch,
  contractOf,
  isOnLiving,
  isWorker,
  type NewOperation,
  OperationNotFoundError,
  type OperationRecord,
  type OperationSettings,
  objectText,
  type StoreContract,
  type TaskAct,
  type TaskSet,
} from '../store/internal.js'
import { type Clock, sleep, systemClock } from '../time/index.js'
import { OperationInterruptedError } from './errors.js'
import { pagesOf } from './pages.js'
import { checkPayloads, checksOf, type PayloadReport, type TaskSchema } from './payload-report.js'
import { checkSelection, type LetterSelection } from './selection.js'

/** The effect that an operation would have now. Nothing is moved. */
export interface OperationPlan {
  /** The act that it would carry out. */
  readonly act: TaskAct
  /** The number of members: the most that it can move. */
  readonly count: number
  /** Members by kind, most first. */
  readonly byKind: readonly { readonly kind: string; readonly count: number }[]
  /** Members by the code of their last failure, most first. */
  readonly byCode: readonly { readonly code: string | null; readonly count: number }[]
  /** Members by the age of their state: less than an hour, a day, a week; or older. */
  readonly byAge: readonly { readonly age: string; readonly count: number }[]
  /** Members that would be left alone, by reason. A payload may be one of another reason too. */
  readonly refused: readonly { readonly reason: string; readonly count: number }[]
  /** How many workers are alive. Without one, all members are moved at once, and wait. */
  readonly workers: number
  /** Payloads that were patched, and checked against the schemas of their tasks; `null` without `patch` and `tasks`. */
  readonly payloads: PayloadReport | null
}

/** Options of `planOperation`. */
export interface PlanOptions extends Pick<OperationSettings, 'patch' | 'twin'> {
  /** Check the payloads of dead letters against the schemas of these tasks. Default: none is checked. */
  readonly tasks?: readonly TaskSchema[] | undefined
}

/** Freezes a selection: its members are those of now, and can only become fewer. */
async function freeze(store: Pick<StoreContract, 'now'>, selection: LetterSelection): Promise<TaskSet> {
  checkSelection(selection)
  if ('ids' in selection) return { ids: selection.ids }
  return { filter: 'filter' in selection ? selection.filter : {}, until: await store.now() }
}

/**
 * Plans an operation: how many members it has, by kind, code and age, and which would be left alone. With `tasks` or `patch`,
 * it reads the newest 1000 dead letters, to see which payloads no longer fit, and which the patch does not change.
 *
 * ```ts
 * const { count, refused } = await planOperation(store, 'redrive', { filter: { errorCode: 'http_502' } })
 * ```
 */
export async function planOperation(
  store: Store,
  act: TaskAct,
  selection: LetterSelection,
  { tasks, patch, twin }: PlanOptions = {},
): Promise<OperationPlan> {
  const contract = contractOf(store)
  checkPatch(act, patch)
  const [rows, workers, payloads] = await Promise.all([
    contract.operations.survey(act, await freeze(contract, selection)),
    contract.workers(),
    (tasks ?? patch) === undefined || act !== 'redrive' ? null : checkPayloads(contract, selection, tasks ?? [], patch),
  ])
  const running = workers.filter(isWorker).length
  const sums = <T>(of: (row: (typeof rows)[number]) => T | undefined): [T, number][] => {
    const counts = new Map<T, number>()
    for (const row of rows) {
      const value = of(row)
      if (value !== undefined) counts.set(value, (counts.get(value) ?? 0) + row.count)
    }
    return [...counts].sort(([, a], [, b]) => b - a)
  }
  const operation = { act, settings: { ...(patch && { patch }), ...(twin && { twin }) } }
  const reasonOf = (row: (typeof rows)[number]) => refusalOf(operation, row, workers)
  const byAge = new Map(sums(({ age }) => age))
  return {
    act,
    count: rows.reduce((sum, { count }) => sum + count, 0),
    byKind: sums(({ kind }) => kind).map(([kind, count]) => ({ kind, count })),
    byCode: sums(({ errorCode }) => errorCode ?? null).map(([code, count]) => ({ code, count })),
    byAge: AGES.flatMap(age => (byAge.has(age) ? { age, count: byAge.get(age) ?? 0 } : [])),
    refused: [
      ...sums(reasonOf).map(([reason, count]) => ({ reason, count })),
      ...(payloads !== null && payloads.invalid > 0 ? [{ reason: PAYLOAD_INVALID, count: payloads.invalid }] : []),
    ],
    workers: running,
    payloads,
  }
}

/** Who asks for an operation, why, and how it goes about it. */
export interface StartOptions extends By, Omit<OperationSettings, 'answerWithinMs' | 'fixedIn' | 'atOnce'> {}

/**
 * Creates an operation. Any live worker advances it; so does `runOperation`. If one is under way that the same call has
 * created, it is returned instead.
 */
export async function startOperation(
  store: Store,
  act: TaskAct,
  selection: LetterSelection,
  { who, why, ...settings }: StartOptions,
): Promise<OperationRecord> {
  const contract = contractOf(store)
  const set = await freeze(contract, selection)
  const wanted = { act, set, by: { who, why }, settings }
  return (await findSame(contract, wanted)) ?? contract.operations.create(wanted)
}

/**
 * The operation under way with the same act, selection, settings and person. If there is one, the same call has created it,
 * and is made again after a failure.
 */
export async function findSame(
  { operations }: Pick<StoreContract, 'operations'>,
  wanted: NewOperation,
): Promise<OperationRecord | undefined> {
  checkNewOperation(wanted)
  const identity = identityOf(wanted)
  for await (const page of pagesOf(request => operations.list({ isOpen: true }, request))) {
    const same = page.find(other => isUnderWay(other) && identityOf(other) === identity)
    if (same !== undefined) return same
  }
  return undefined
}

/** Calls are the same if they ask for the same; when they do so, and how many members there are by then, differs. */
function identityOf({ act, set, by, settings: { patch, ...settings } = {} }: NewOperation): string {
  return canonicalJson({ act, members: membersIn(set), by, settings, patch: patch && objectText(patch) })
}

function membersIn(set: NewOperation['set']): object {
  if ('ids' in set) return [...new Set(set.ids)]
  if (!('filter' in set)) return { ...set, until: undefined, count: undefined }
  const { where, ...columns } = set.filter
  return { ...columns, where: where && objectText(where) }
}

/** Options of `runOperation`. */
export interface RunOperationOptions {
  /** The name of this driver on record. */
  readonly driver: string
  /** Leaves the operation to others when it aborts. */
  readonly signal?: AbortSignal | undefined
  /** Called with the operation as it advances. */
  readonly onProgress?: ((operation: OperationRecord) => void) | undefined
  /** Leave dead letters alone whose payload does not fit the schemas of these tasks, as long as this process drives it. */
  readonly tasks?: readonly TaskSchema[] | undefined
  /** Default: the system clock. */
  readonly clock?: Clock | undefined
}

interface ReachingOptions extends RunOperationOptions {
  /** Acts on members outside of the store. Default: it watches until somebody who can reach them has done so. */
  readonly outside?: OutsideTarget | undefined
}

const POLL_MS = 200

type RunStore = Pick<StoreContract, 'operations' | 'now' | 'workers' | 'get' | 'ledgers' | 'payloads' | 'schedules'>

/**
 * Drives an operation, or watches it while a worker does, until all its members were moved, or it was stopped. Returns it as
 * it is then. A requeue and a reset are only watched.
 */
export async function runOperation(store: Store, id: string, options: RunOperationOptions): Promise<OperationRecord> {
  return runToEnd(contractOf(store), id, options)
}

async function runToEnd(
  store: RunStore,
  id: string,
  { driver, signal = new AbortController().signal, onProgress, clock = systemClock, tasks, outside }: ReachingOptions,
): Promise<OperationRecord> {
  const checks = checksOf(tasks ?? [])
  for (;;) {
    const isDriven = await driveOperation(store, id, { driver, signal, clock, checks, outside, onStep: onProgress })
    const operation = await store.operations.get(id)
    if (operation === undefined) throw new OperationNotFoundError(id)
    if (!isDriven) onProgress?.(operation)
    if (!isUnderWay(operation) || signal.aborted) return operation
    if (!isDriven) await sleep(POLL_MS, clock, signal).catch(() => {})
  }
}

/** Whether members are being moved. */
export function isUnderWay({ status }: Pick<OperationRecord, 'status'>): boolean {
  return status === 'canary' || status === 'running'
}

/** Options of an act on many tasks. */
export interface ActOptions extends StartOptions, Pick<RunOperationOptions, 'tasks'> {
  /** Stops it after the current step. Continue its operation for the rest. */
  readonly signal?: AbortSignal | undefined
  /** Called with the number moved so far. */
  readonly onProgress?: ((moved: number) => void) | undefined
  /** Default: the system clock. */
  readonly clock?: Clock | undefined
}

/** The options of a bulk act, for `checkOptions`. */
export const ACT_OPTIONS: KnownOptions<ActOptions> = {
  who: '',
  why: '',
  patch: '',
  fromStep: '',
  forgetStep: '',
  runAt: '',
  priority: '',
  twin: '',
  canary: '',
  stopAbove: '',
  perSecond: '',
  limit: '',
  tasks: 'object',
  signal: 'object',
  onProgress: 'function',
  clock: 'object',
}

/**
 * Creates an operation and runs it, or goes on with the one that the same call has begun. Stops it when the signal aborts.
 * Returns `undefined`, and creates none, if nothing matches the selection.
 */
export async function actOnMany(
  store: RunStore & Pick<StoreContract, 'list'>,
  act: TaskAct,
  selection: LetterSelection,
  { signal, onProgress, clock, tasks, ...options }: ActOptions,
): Promise<OperationRecord | undefined> {
  const { who, why, ...settings } = options
  const wanted = { act, set: await freeze(store, selection), by: { who, why }, settings }
  const same = await findSame(store, wanted)
  if (same === undefined && (await isEmpty(store, act, selection))) return undefined
  const { id } = same ?? (await store.operations.create(wanted))
  const onStep = ({ moved }: OperationRecord) => onProgress?.(moved)
  return runUntilStopped(store, id, { who: options.who }, { signal, onProgress: onStep, clock, tasks })
}

/** Runs an operation, and stops it when the signal aborts. Throws an `OperationInterruptedError` if the store fails. */
export async function runUntilStopped(
  store: RunStore,
  id: string,
  by: By,
  options: Omit<ReachingOptions, 'driver'>,
): Promise<OperationRecord> {
  const ran = await runToEnd(store, id, { driver: by.who, ...options }).catch((error: unknown) => {
    throw isStoreFailure(error) ? new OperationInterruptedError(id, error) : error
  })
  return options.signal?.aborted && isUnderWay(ran) ? store.operations.change(id, 'stop', by) : ran
}

function isStoreFailure(error: unknown): error is RetryableError {
  return error instanceof RetryableError && error.code.startsWith('store_')
}

/** Whether no task matches a selection now. Ids are taken as they are. */
async function isEmpty(store: Pick<StoreContract, 'list'>, act: TaskAct, selection: LetterSelection): Promise<boolean> {
  checkSelection(selection)
  if ('ids' in selection) return false
  const filter = 'filter' in selection ? selection.filter : {}
  const statuses = isOnLiving(act) ? (['waiting', 'running'] as const) : (['dead'] as const)
  for (const status of statuses) {
    let after: string | undefined
    do {
      const { items, next } = await store.list({ ...filter, status }, { limit: 1, after })
      if (items.length > 0) return false
      after = next
    } while (after !== undefined)
  }
  return true
}

/** The size of a transaction. */
const UNDO_BATCH = 500

/**
 * Puts the members of an operation back as they were: those that wait and have not run since, and discarded ones that are
 * still kept. Returns how many.
 */
export async function undoOperation(
  store: Store,
  id: string,
  by: By,
  { signal, onProgress }: { readonly signal?: AbortSignal; readonly onProgress?: (undone: number) => void } = {},
): Promise<{ readonly undone: number; readonly isStopped: boolean }> {
  const { operations } = contractOf(store)
  let undone = 0
  let after: string | undefined
  do {
    if (signal?.aborted) return { undone, isStopped: true }
    const page = await operations.undo(id, { limit: UNDO_BATCH, after }, by)
    undone += page.undone
    after = page.next
    onProgress?.(undone)
  } while (after !== undefined)
  return { undone, isStopped: false }
}
