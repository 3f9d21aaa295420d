import { isEncoded } from '../codec/internal.js'
import { followers } from '../engine/internal.js'
import { OptionError } from '../policy/index.js'
import { checkOptions, plainJson } from '../policy/internal.js'
import type { By, Store, TaskFilter, TaskRecord } from '../store/index.js'
import {
  batchOf,
  checkIds,
  contractOf,
  FAILED_BY_HAND,
  isItem,
  lengthProblem,
  type StoreContract,
} from '../store/internal.js'
import { getTasks } from './get-tasks.js'
import type { TaskSchema } from './payload-report.js'
import { alreadyEnded, changedSince, memberOf, noCodec, notFound, ofRunByHand, type Refusal, runs } from './refusal.js'

/** The result of an act that ends or deletes named tasks. */
export interface EndedTasks {
  /** The tasks that it has ended or deleted. */
  readonly ids: readonly string[]
  /** Tasks that were left as they were, and why. */
  readonly refused: readonly Refusal[]
}

/** Who completes tasks, and with which result. @inline */
export interface CompleteOptions extends By {
  /** What `queue.result()` is to give: a value that JSON can hold. Default: none. */
  readonly result?: unknown
  /** The tasks of the kinds that have a codec, which encodes the result. */
  readonly tasks?: readonly TaskSchema[]
}

/** The result of a deletion. */
export interface DeletedTasks {
  /** How many tasks were deleted. */
  readonly deleted: number
  /** Tasks that were named and left as they were, and why. */
  readonly refused: readonly Refusal[]
  /** Whether the signal stopped it before the end. */
  readonly isStopped: boolean
}

/** Who deletes, and why. `signal` stops it after the current batch. @inline */
export interface DeleteOptions extends By {
  /** With a filter: tasks that have changed after this time are left alone. Default: now. */
  readonly until?: number | undefined
  /** Stops it after the current batch. */
  readonly signal?: AbortSignal | undefined
  /** Called after each batch with the number of tasks that were deleted so far. */
  readonly onProgress?: ((deleted: number) => void) | undefined
}

/** The size of a transaction. The audit record of each names all of its tasks. */
const BATCH = 100

/**
 * Ends tasks as succeeded whose work somebody has done by hand: those that wait, are dead or were cancelled. Whoever waits for
 * the result of one gets it.
 *
 * ```ts
 * await completeTasks(store, ['order-42'], { who: 'ada', why: 'paid by bank transfer', result: { paid: true } })
 * ```
 */
export async function completeTasks(
  store: Store,
  ids: readonly string[],
  { result, ...options }: CompleteOptions,
): Promise<EndedTasks> {
  checkOptions('completeTasks()', { result, ...options }, { who: '', why: '', result: '', tasks: '' })
  return completeWith(store, ids, resultText(result), options)
}

/** The same, with the result as JSON text. */
export async function completeWith(
  store: Store,
  ids: readonly string[],
  result: string | undefined,
  { tasks = [], ...by }: Omit<CompleteOptions, 'result'>,
): Promise<EndedTasks> {
  const contract = contractOf(store)
  checkIds(ids)
  const problem = result === undefined ? undefined : lengthProblem(result)
  if (problem !== undefined) throw new OptionError('result', `The result cannot be kept: ${problem}.`)
  const codecs = new Map(tasks.map(({ kind, codec }) => [kind, codec]))
  const isUncoded = ({ kind, payload }: TaskRecord) =>
    result !== undefined && codecs.get(kind) === undefined && isEncoded(payload)
  const complete = async (batch: readonly string[]) => {
    if (result === undefined) return contract.complete(batch, undefined, by)
    const plain: string[] = []
    const done: string[] = []
    for await (const { id, task } of getTasks(contract, batch)) {
      const codec = task && codecs.get(task.kind)
      if (codec !== undefined) done.push(...(await contract.complete([id], codec.encode(result, 'result', id), by)))
      else if (task !== undefined && !isUncoded(task)) plain.push(id)
    }
    return plain.length === 0 ? done : [...done, ...(await contract.complete(plain, result, by))]
  }
  const refusal = (id: string, task: TaskRecord | undefined) =>
    refusalOf('complete', id, task) ?? (task && isUncoded(task) ? noCodec(id, task.kind) : undefined)
  return inBatches(contract, ids, complete, refusal)
}

/**
 * Makes dead letters of tasks that wait or were cancelled, with the reason as their last error. What is to follow a death of
 * their kind, follows.
 */
export async function failTasks(store: Store, ids: readonly string[], by: Required<By>): Promise<EndedTasks> {
  const contract = contractOf(store)
  checkIds(ids)
  checkOptions('failTasks()', by, { who: '', why: '' })
  const lifetimes = await contract.lifetimes.list()
  const fail = async (batch: readonly string[]) => {
    const failing: Parameters<StoreContract['fail']>[0][number][] = []
    for await (const { id, task } of getTasks(contract, batch)) {
      const declared = lifetimes.find(
        ({ kind, category = task?.category }) => kind === task?.kind && category === task?.category,
      )
      const letter = task && { ...task, token: String(task.changedAt), errorCode: FAILED_BY_HAND, errorMessage: by.why }
      failing.push({ id, ifDead: letter && followers(declared?.onDead, letter, FAILED_BY_HAND) })
    }
    return contract.fail(failing, by)
  }
  return inBatches(contract, ids, fail, (id, task) => refusalOf('fail', id, task))
}

/** The tasks to delete: by id, by filter, or explicitly all of them. */
export type DeletionSelection =
  | { readonly ids: readonly string[] }
  | { readonly filter: TaskFilter }
  | { readonly all: true }

/**
 * Deletes tasks with their history: those that wait or have ended, by id or by filter. The audit log keeps who, why and the
 * ids; nothing else is left, and it cannot be undone. An id is free again.
 */
export async function deleteTasks(
  store: Store,
  selection: DeletionSelection,
  { until, signal, onProgress, ...by }: DeleteOptions,
): Promise<DeletedTasks> {
  const contract = contractOf(store)
  checkOptions('deleteTasks()', by, { who: '', why: '' })
  checkDeletion(selection)
  let deleted = 0
  const refused: Refusal[] = []
  for await (const batch of 'ids' in selection
    ? batchesOf(selection.ids)
    : matching(contract, filterOf(selection), until)) {
    if (signal?.aborted) return { deleted, refused, isStopped: true }
    const gone = new Set(await contract.delete(batch, by))
    deleted += gone.size
    onProgress?.(deleted)
    if ('ids' in selection) refused.push(...(await refusalsOf(contract, batch, gone, deletionRefusal(contract))))
  }
  return { deleted, refused, isStopped: false }
}

/** A filter that came out empty, or a field that was mistyped, must not mean everything. */
function checkDeletion(selection: DeletionSelection): void {
  const [name, ...others] = Object.keys(selection)
  const isOne = others.length === 0 && (name === 'ids' || name === 'filter' || name === 'all')
  if (!isOne || ('all' in selection && selection.all !== true))
    throw new OptionError('selection', 'Select tasks by exactly one of { ids }, { filter } and { all: true }.')
  if ('ids' in selection) checkIds(selection.ids)
  if ('filter' in selection && !Object.values(selection.filter).some(value => value !== undefined))
    throw new OptionError('filter', 'The filter is empty. Pass { all: true } for every task.')
}

function filterOf(selection: Exclude<DeletionSelection, { readonly ids: readonly string[] }>): TaskFilter {
  return 'filter' in selection ? selection.filter : {}
}

/** The effect that a deletion by filter would have now. Nothing is changed. */
export interface DeletionPlan {
  /** How many tasks would be deleted, unless they are members of batches. */
  readonly count: number
  /** How many of those wait, and would never run. */
  readonly waiting: number
  /** How many run, and would be left alone. */
  readonly running: number
  /** How many are items of pipelines, and would be left alone. */
  readonly items: number
}

/** Plans to delete the tasks that match. */
export async function planDeletion(
  store: Store,
  selection: Exclude<DeletionSelection, { readonly ids: readonly string[] }>,
): Promise<DeletionPlan> {
  const counts = await contractOf(store).countBy(filterOf(selection), ['kind', 'status'])
  const sum = (of: (count: (typeof counts)[number]) => boolean) =>
    counts.filter(of).reduce((total, { count }) => total + count, 0)
  return {
    count: sum(each => !isItem(each) && each.status !== 'running'),
    waiting: sum(each => !isItem(each) && each.status === 'waiting'),
    running: sum(each => !isItem(each) && each.status === 'running'),
    items: sum(isItem),
  }
}

/** The effect that an act on named tasks would have now. Nothing is changed. */
export async function planEnd(
  store: Store,
  act: 'complete' | 'fail' | 'delete',
  ids: readonly string[],
): Promise<EndedTasks> {
  const contract = contractOf(store)
  checkIds(ids)
  const refusal =
    act === 'delete'
      ? deletionRefusal(contract)
      : (id: string, task: TaskRecord | undefined) => refusalOf(act, id, task)
  const movable: string[] = []
  const refused: Refusal[] = []
  for await (const { id, task } of getTasks(contract, ids)) {
    const reason = await refusal(id, task)
    if (reason === undefined) movable.push(id)
    else refused.push(reason)
  }
  return { ids: movable, refused }
}

/** Why a task would be left alone; `undefined` if it would not be. */
type RefusalFor = (id: string, task: TaskRecord | undefined) => Refusal | undefined | Promise<Refusal | undefined>

function refusalOf(act: 'complete' | 'fail' | 'delete', id: string, task: TaskRecord | undefined): Refusal | undefined {
  if (task === undefined) return notFound(id)
  if (isItem(task)) return ofRunByHand(id)
  const { status } = task
  if (status === 'running') return runs(id)
  if (act === 'delete' || status === 'waiting' || status === 'cancelled') return undefined
  return act === 'complete' && status === 'dead' ? undefined : alreadyEnded(id, status)
}

/** A batch counts its members for as long as it is on record. */
function deletionRefusal(store: Pick<StoreContract, 'batches'>): RefusalFor {
  return async (id, task) => {
    const refusal = refusalOf('delete', id, task)
    const batch = batchOf(id)
    if (refusal !== undefined || batch === undefined) return refusal
    return (await store.batches.get(batch)) === undefined ? undefined : memberOf(id, batch)
  }
}

async function inBatches(
  store: Pick<StoreContract, 'get'>,
  ids: readonly string[],
  act: (batch: readonly string[]) => Promise<readonly string[]>,
  refusal: RefusalFor,
): Promise<EndedTasks> {
  const ended: string[] = []
  const refused: Refusal[] = []
  for (const batch of batchesOf(ids)) {
    const changed = await act(batch)
    ended.push(...changed)
    refused.push(...(await refusalsOf(store, batch, new Set(changed), refusal)))
  }
  return { ids: ended, refused }
}

/** Why tasks of a batch were left alone. One that could be changed by now was not, when it was its turn. */
async function refusalsOf(
  store: Pick<StoreContract, 'get'>,
  batch: readonly string[],
  changed: ReadonlySet<string>,
  refusal: RefusalFor,
): Promise<Refusal[]> {
  const refused: Refusal[] = []
  const others = batch.filter(id => !changed.has(id))
  for await (const { id, task } of getTasks(store, others)) refused.push((await refusal(id, task)) ?? changedSince(id))
  return refused
}

function* batchesOf(ids: readonly string[]): Generator<readonly string[]> {
  const named = [...new Set(ids)]
  for (let start = 0; start < named.length; start += BATCH) yield named.slice(start, start + BATCH)
}

/** The ids of the tasks that match, page by page. */
async function* matching(
  store: StoreContract,
  filter: TaskFilter,
  until: number | undefined,
): AsyncGenerator<readonly string[]> {
  const last = until ?? (await store.now())
  let after: string | undefined
  do {
    const { items, next } = await store.list(filter, { limit: BATCH, after })
    const ids = items.filter(({ changedAt }) => changedAt <= last).map(({ id }) => id)
    if (ids.length > 0) yield ids
    after = next
  } while (after !== undefined)
}

function resultText(result: unknown): string | undefined {
  try {
    return plainJson(result)
  } catch (cause) {
    throw new OptionError(
      'result',
      `'result' must be a value that JSON can hold: ${cause instanceof Error ? cause.message : cause}.`,
    )
  }
}
