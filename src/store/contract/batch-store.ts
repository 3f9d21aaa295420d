import type { By } from './ledger.js'
import type { Page, PageRequest } from './list.js'
import type { ItemCounts } from './run-store.js'
import type { NewTask, TaskRecord, TaskStatus } from './task.js'

/**
 * The life of a batch
 *
 *   fill ──► filling ──(last chunk, close)──► running ──check──► completed, partial_success, failed
 *                                                ▲                             │
 *                                                └────────── redrive ──────────┘
 *
 * A batch is a record beside its members, which are plain tasks of their own kinds: with their own lanes, policies, limits and
 * dead letters. Only their ids are the batch's: `batch:<name>:<position>`. So a member shows by its id which batch it is in, the
 * batch finds its members as a range of ids, and nothing is written for it when a task is claimed or settled: tasks in a batch
 * cost what others cost, and its counts cannot disagree with its tasks, since they are read from them.
 *
 * - **filling**: members are added, chunk by chunk, each chunk a transaction. They run meanwhile. The ids follow from the
 *   positions, so a producer that died begins anew with the same tasks, and none is there twice.
 * - **running**: all members were added, and some of them wait or run. A member may add others while it runs: their ids follow
 *   from its own, so an attempt that is repeated adds none twice.
 * - **ended**: no member waits or runs. The transaction that finds so, under the lock of the record, also enqueues the task that
 *   follows, under the id `batch-end:<name>:<n>`, where `n` counts the ends. No settlement ends a batch: it cannot know that its
 *   member was the last. The worker that has settled a member makes the `check` right afterwards, and once a minute every
 *   worker checks all open batches, since another one may have died in between.
 * - **opened again**: by a redrive of a dead member, in the same transaction. It ends again when that has ended, and then the
 *   task follows once more, under its next id. An undo or a discard opens no batch.
 *
 * Members are kept for as long as their batch, so its counts are whole.
 */

export const BATCH_STATUSES = ['filling', 'running', 'completed', 'partial_success', 'failed'] as const

/**
 * Where a batch is in its life. An ended one is `completed` if all members succeeded or were skipped, `failed` if none did, and
 * otherwise a `partial_success`. An empty one is completed.
 */
export type BatchStatus = (typeof BATCH_STATUSES)[number]

/** The task that follows the end of a batch. Its payload becomes `{ batch, status, counts, ending, payload }`. */
export type BatchEndTask = Pick<NewTask, 'kind' | 'category' | 'key' | 'payload'>

/** The last time that a redrive opened a batch again. */
export interface Reopening extends By {
  readonly at: number
  /** How many dead members were redriven at once. */
  readonly members: number
}

/** A batch as it is on record. Times are milliseconds on the store's clock. */
export interface BatchRecord {
  readonly name: string
  readonly status: BatchStatus
  /** The task that follows its end. */
  readonly onEnd: BatchEndTask | undefined
  /** How often it has ended: more than once if dead members were redriven. */
  readonly endings: number
  /** When it was last opened again. */
  readonly reopened: Reopening | undefined
  readonly createdAt: number
  /** When it last ended; `undefined` while it has not. */
  readonly endedAt: number | undefined
  /** Its members. */
  readonly counts: ItemCounts
}

/** Members of a batch that agree in these fields. */
export interface BatchCount {
  readonly status: TaskStatus
  readonly kind: string
  /** Of the last failure. */
  readonly errorCode: string | undefined
  readonly count: number
}

/** A chunk of members. */
export interface BatchChunk {
  /** The position of the first one, from 0. */
  readonly position: number
  /** Without ids: these follow from the positions. */
  readonly tasks: readonly Omit<NewTask, 'id'>[]
  /** Whether it is the last chunk. */
  readonly isEnd: boolean
  /** The task that follows the end. The first chunk decides. */
  readonly onEnd?: BatchEndTask | undefined
}

/** Keeps batches. Each verb is one transaction. A verb on a batch that does not exist is a `BatchNotFoundError`. */
export interface BatchStore {
  /**
   * Adds members, and opens the batch with the first chunk. Members that are there already are left as they are. A batch that
   * is full takes none: `isFull` says so, and nothing has changed.
   */
  fill(name: string, chunk: BatchChunk): Promise<{ readonly added: number; readonly isFull: boolean }>
  /** Adds members on behalf of one that runs; their ids begin with its own. A batch that has ended is a `BatchEndedError`. */
  grow(name: string, tasks: readonly (NewTask & { readonly id: string })[]): Promise<{ readonly added: number }>
  /** No more members are added from outside, so it ends with those that it has. */
  close(name: string, by: By): Promise<void>
  /** A batch; `undefined` if there is none with that name. */
  get(name: string): Promise<BatchRecord | undefined>
  /** A page of the batches, newest first. */
  list(filter: { readonly isOpen?: boolean }, page: PageRequest): Promise<Page<BatchRecord>>
  /** Its members in the order of their ids: those that were added first come first. */
  members(name: string, status: TaskStatus | undefined, page: PageRequest): Promise<Page<TaskRecord>>
  /** Counts its members. */
  tally(name: string): Promise<readonly BatchCount[]>
  /**
   * Ends a batch if nothing is left to do. Returns the id of the first member behind `from` that has not ended, to begin there
   * next time; `undefined` if there is none.
   */
  check(name: string, from?: string): Promise<string | undefined>
  /** The names of the batches that have not ended. */
  open(): Promise<readonly string[]>
}
