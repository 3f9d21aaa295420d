import type { By, Page, PageRequest, Store, TaskStatus } from '../store/index.js'
import {
  type BatchCount,
  BatchNotFoundError,
  type BatchRecord,
  type BatchStatus,
  contractOf,
  endId,
  type ItemCounts,
} from '../store/internal.js'
import { pagesOf } from './pages.js'
import { totalOf } from './run-view.js'
import { isoOrNull, type TaskView, taskView } from './task-view.js'

/** A batch as plain JSON. Times are ISO 8601 text in UTC. */
export interface BatchView {
  /** Its name. */
  readonly name: string
  /** Where it is in its life. */
  readonly status: BatchStatus
  /** The number of its tasks. */
  readonly total: number
  /** Its tasks by status. */
  readonly counts: ItemCounts
  /** When it was opened. */
  readonly createdAt: string
  /** When it last ended; `null` while it has not. */
  readonly endedAt: string | null
  /** How often it has ended: more than once if dead letters of it were redriven. */
  readonly endings: number
  /** The last redrive that opened it again after its end. */
  readonly reopened: {
    readonly at: string
    readonly who: string
    readonly why: string | null
    readonly tasks: number
  } | null
  /** The kind of the task that follows its end. */
  readonly onEnd: string | null
}

/** A batch with its dead letters, and the task that followed its last end. */
export interface BatchExplanation extends BatchView {
  /** Its dead letters by kind and code, the most frequent first. */
  readonly deaths: readonly { readonly kind: string; readonly code: string | null; readonly count: number }[]
  /** `null` if it has not ended, or nothing follows. A task that was pruned has no status. */
  readonly followedBy: { readonly id: string; readonly status: TaskStatus | null } | null
}

/** Lists batches, newest first; with `isOpen`, only those that have not ended. */
export async function listBatches(
  store: Store,
  page: PageRequest,
  filter: { readonly isOpen?: boolean } = {},
): Promise<Page<BatchView>> {
  const { items, ...rest } = await contractOf(store).batches.list(filter, page)
  return { items: items.map(batchView), ...rest }
}

/** A batch with its dead letters. Throws a `BatchNotFoundError` if there is none with this name. */
export async function findBatch(store: Store, name: string): Promise<BatchExplanation> {
  const contract = contractOf(store)
  const batch = await contract.batches.get(name)
  if (batch === undefined) throw new BatchNotFoundError(name)
  const { onEnd, endings } = batch
  const id = onEnd === undefined || endings === 0 ? undefined : endId(name, endings)
  const task = id === undefined ? undefined : await contract.get(id)
  const followedBy = id === undefined ? null : { id, status: task?.status ?? null }
  return { ...batchView(batch), deaths: deathsOf(await contract.batches.tally(name)), followedBy }
}

/** The tasks of a batch in the order in which they were added; with a status, only those. */
export async function listBatchTasks(
  store: Store,
  name: string,
  page: PageRequest,
  { status }: { readonly status?: TaskStatus | undefined } = {},
): Promise<Page<TaskView>> {
  const { items, ...rest } = await contractOf(store).batches.members(name, status, page)
  return { items: items.map(taskView), ...rest }
}

/** The ids of the dead letters of a batch. */
export async function deadOfBatch(store: Store, name: string): Promise<readonly string[]> {
  const { batches } = contractOf(store)
  const ids: string[] = []
  for await (const letters of pagesOf(page => batches.members(name, 'dead', page))) {
    ids.push(...letters.map(({ id }) => id))
  }
  return ids
}

/** Lets a batch end whose producer is gone, with the tasks that it has. */
export function closeBatch(store: Store, name: string, by: By): Promise<void> {
  return contractOf(store).batches.close(name, by)
}

function batchView(batch: BatchRecord): BatchView {
  const { name, status, counts, createdAt, endedAt, endings, reopened, onEnd } = batch
  return {
    name,
    status,
    total: totalOf(counts),
    counts,
    createdAt: new Date(createdAt).toISOString(),
    endedAt: isoOrNull(endedAt),
    endings,
    reopened:
      reopened === undefined
        ? null
        : {
            at: new Date(reopened.at).toISOString(),
            who: reopened.who,
            why: reopened.why ?? null,
            tasks: reopened.members,
          },
    onEnd: onEnd?.kind ?? null,
  }
}

function deathsOf(tally: readonly BatchCount[]): BatchExplanation['deaths'] {
  return tally
    .filter(({ status }) => status === 'dead')
    .map(({ kind, errorCode, count }) => ({ kind, code: errorCode ?? null, count }))
    .sort((a, b) => b.count - a.count)
}
