import type { By } from './ledger.js'
import type { Page, PageRequest } from './list.js'
import type { NewTask, TaskRecord, TaskStatus } from './task.js'

/**
 * The life of a run
 *
 *            ┌────── change ──────┐        ┌─────────── reprocess ───────────┐
 *            ▼                    │        ▼                                  │
 *   open ──► running ──► paused, stopped   running ──check──► completed, partial_success, failed
 *               │                                             cancelled
 *               └──► interrupted ──read──► running
 *
 * A run is a record beside its items, which are tasks: kind `pipeline:<name>`, the stage as their category, the run's id as
 * their key. So the counts of a run are those of its lanes, and nothing is counted twice.
 *
 * - **running**: items are taken from the source and worked on. One process reads, under a lease; all may work.
 * - **paused**, **stopped**: no claim gets an item of it, and no item goes on to its next stage. An operator asked for it,
 *   or its failure budget is exceeded. `change` with `isPaused: false` lets it run again; after a stop the budget counts
 *   afresh.
 * - **interrupted**: the reader is gone before the source was read to its end, or the source threw. Items that were taken
 *   are still worked on. It has not ended.
 * - **ended**: the source was read to its end and no item waits or runs, or the run was cancelled and no item is left. The
 *   verbs that lock the record end it: `check`, and those that cancel its last items. They add up and enqueue the run's
 *   last task in one transaction. No settlement ends a run: it cannot know that its item was the last.
 */

export const RUN_STATUSES = [
  'running',
  'paused',
  'stopped',
  'interrupted',
  'cancelled',
  'completed',
  'partial_success',
  'failed',
] as const

/** Where a run is in its life. */
export type RunStatus = (typeof RUN_STATUSES)[number]

/** Settings of a run that can be changed while it runs. */
export interface RunSettings {
  /** The share of dead items, of those that have ended, above which the run stops. 1: never. */
  readonly failureBudget: number
  /** Budgets of single stages: the share of dead items, of those that have left the stage. */
  readonly stageBudgets: Readonly<Record<string, number>>
  /** The budget is checked each time that this many more items have ended. */
  readonly checkInterval: number
  /** Count only the items that ended within this many last ones. Default: all since the start, or since the last stop. */
  readonly budgetWindow: number | undefined
  /** The success rate from which an ended run is `completed`. */
  readonly completedFrom: number
  /** The success rate from which it is a `partial_success`; below, it has `failed`. */
  readonly partialFrom: number
  /** The source is read on only while fewer items than this are waiting or running. */
  readonly maxUnfinished: number
  /** How many items of a stage each process works on at once, by stage. Others: as their code says. */
  readonly concurrency: Readonly<Record<string, number>>
}

/** A run to be opened. */
export interface NewRun {
  /** At most 100 letters, digits and _.- */
  readonly id: string
  /** The name of the pipeline. */
  readonly pipeline: string
  /** The version of the pipeline's code. */
  readonly version: string
  /** Its stages, in their order. */
  readonly stages: readonly string[]
  /** Settings that can be changed while it runs. */
  readonly settings: RunSettings
  /** The process that opens the run takes the lease of its reader at once. Default: nobody reads it yet. */
  readonly reader?: { readonly name: string; readonly leaseMs: number }
  /** Its items have ids of their own. Default: their positions. */
  readonly hasOwnIds?: boolean
  /** Succeeded items are listed until they have been written out: see `outputs`. */
  readonly hasOutput?: boolean
  /** Enqueued when the run ends, under the id `<run>:end:<n>`. Its payload becomes `{ run, status, counts, payload }`. */
  readonly onEnd?: Pick<NewTask, 'kind' | 'category' | 'key' | 'payload'>
  /** Notes of whoever opened it, as JSON text: the path of a file, say. */
  readonly about?: string
}

/**
 * How many items are in which state. `running` includes items that a worker has taken ahead: up to twice its concurrency.
 */
export type ItemCounts = Readonly<Record<TaskStatus, number>>

/** Why a budget stopped a run: the figures at the check, and the commonest failure among the dead items. */
export interface BudgetStop {
  /** When the check was made. */
  readonly at: number
  /** The stage whose budget was exceeded; `undefined`: the budget of the run. */
  readonly stage: string | undefined
  /** Items that had ended and were counted. */
  readonly processed: number
  /** Dead items among them. */
  readonly dead: number
  /** Their share. */
  readonly rate: number
  /** The share that was allowed. */
  readonly budget: number
  /** The commonest error code among the dead items that were counted, with its stage and its share of them. */
  readonly cause: { readonly errorCode: string; readonly stage: string; readonly share: number } | undefined
}

/** A run as it is on record. Times are milliseconds on the store's clock. */
export interface RunRecord extends Omit<NewRun, 'hasOwnIds' | 'hasOutput' | 'reader'> {
  /** Whether its items have ids of their own. */
  readonly hasOwnIds: boolean
  /** Whether results are listed until they have been written out. */
  readonly hasOutput: boolean
  /** Where it is in its life. */
  readonly status: RunStatus
  /** Grows with every change of the settings. */
  readonly revision: number
  /** The number of items read from the source so far, with duplicates: the position of the next one. */
  readonly position: number
  /** Items whose id was taken already. They are not part of the total. */
  readonly duplicates: number
  /** The place in the source after the last item taken, as the reader noted it. */
  readonly cursor: string | undefined
  /** Nothing more is read: the source was read to its end, or the run was cancelled. */
  readonly isRead: boolean
  /** The process that reads the source, and until when its lease runs. */
  readonly reader: { readonly name: string; readonly until: number; readonly leaseMs?: number } | undefined
  /** Why the source could not be read on. */
  readonly sourceError: string | undefined
  /** The figures at which a budget stopped it. */
  readonly stop: BudgetStop | undefined
  /** The most frequent failure among its dead items, if it has failed. */
  readonly cause: BudgetStop['cause']
  /** How often it has ended: more than once if dead items were reprocessed. */
  readonly endings: number
  /** The length of the output file, as of the last `written`. */
  readonly outputBytes: number
  /** When it was opened. */
  readonly createdAt: number
  /** When the record last changed. */
  readonly changedAt: number
  /** When it last ended; `undefined` while it has not. */
  readonly endedAt: number | undefined
  /** All its items. Together they are the total: all items taken so far. */
  readonly counts: ItemCounts
  /** Its items by the stage that they are in, in the order of the stages; then stages that the run was not opened with. */
  readonly byStage: readonly { readonly stage: string; readonly counts: ItemCounts }[]
}

/** A chunk of items from the source. */
export interface Chunk {
  /** The process that reads the source. */
  readonly reader: string
  /** The lease of the reader runs this long from now. */
  readonly leaseMs: number
  /**
   * The position of the first item: must be the run's, or another process has read on. A chunk that was taken, and is sent
   * once more because the answer was lost, changes nothing.
   */
  readonly position: number
  /** `id` is the item's own, where the run has such ids. It must not begin with `end:`. */
  readonly items: readonly { readonly id?: string; readonly payload: string; readonly cost?: NewTask['cost'] }[]
  /** The place in the source after the last item. */
  readonly cursor?: string
  /** The span that takes the items, as a W3C `traceparent`. Default: none. */
  readonly traceparent?: string
  /** Whether the source has ended. */
  readonly isEnd: boolean
}

/** A change of a run. */
export interface RunChange {
  /** Settings to change. Others stay. */
  readonly settings?: Partial<RunSettings>
  /** Whether it is to be paused, or to go on. */
  readonly isPaused?: boolean
  /** The source threw, or the reader gives up: the run is interrupted, and its lease is free. */
  readonly sourceError?: string
  /** The reader that says so. It is not listened to if another one has the lease by now. */
  readonly reader?: string
  /** The stages of its pipeline today, and the version of the code. Lanes of new stages are made. */
  readonly stages?: readonly string[]
  /** The version of the pipeline's code today. */
  readonly version?: string
}

/** Which dead items to reprocess. An absent field matches everything. */
export interface ReprocessFilter {
  /** The name of the pipeline. */
  readonly pipeline: string
  /** The id of one run. */
  readonly run?: string
  /** The stage that they died in. */
  readonly stage?: string
  /** The code of the verdict that they died of. */
  readonly errorCode?: string
  /** Only items that died up to this time, on the store's clock: so a loop ends even where items die again at once. */
  readonly diedUntil?: number
}

/** How to reprocess them. */
export interface ReprocessOptions {
  /** The maximum number of items. */
  readonly limit: number
  /** Move them to this stage instead of the one named in the filter, for a stage that was renamed or is gone. */
  readonly as?: string
  /** The person who asks, for the record. */
  readonly by: By
}

/** A succeeded item that has not been written out. */
export interface OutputRow {
  /** The id of the item. */
  readonly id: string
  /** The value that its last stage returned, as JSON text. */
  readonly result: string | undefined
}

/**
 * Keeps runs. Each verb is one transaction. Works on items through the same tables as the task verbs: `redrive` opens a run
 * again too, and `prune` forgets runs as a whole, with all their items, once they have ended for as long as it is told.
 * A verb on a run that does not exist is a `RunNotFoundError`.
 */
export interface RunStore {
  /** Opens a run. An id that is taken is a `RunExistsError`. */
  open(run: NewRun): Promise<RunRecord>
  /** A run; `undefined` if there is none with that id. */
  get(id: string): Promise<RunRecord | undefined>
  /** A page of the runs that match, newest first. */
  list(filter: { readonly pipeline?: string; readonly status?: RunStatus }, page: PageRequest): Promise<Page<RunRecord>>
  /** Takes or renews the reader's lease. `RunBusyError` while another reader has it; `RunEndedError` if there is nothing to read. */
  read(id: string, reader: string, leaseMs: number): Promise<RunRecord>
  /** Adds items at the first stage, with the new position and cursor. Throws like `read`, and then nothing was taken. */
  take(id: string, chunk: Chunk): Promise<RunRecord>
  /**
   * Adds up. Ends the run if nothing is left to do; stops it if a budget is exceeded at a multiple of the check interval
   * that was reached since the last check. Memory and SQLite also check within the settlement that reaches it.
   */
  check(id: string): Promise<RunRecord>
  /** Changes settings, pauses, goes on, or notes that the source failed. With `by`, appends an audit record. */
  change(id: string, change: RunChange, by?: By): Promise<RunRecord>
  /** Its items in the order of the source, with `status` only those. */
  items(id: string, page: PageRequest, status?: TaskStatus): Promise<Page<TaskRecord>>
  /**
   * Cancels a run: up to `limit` waiting items at a time, of which `left` are left; running ones as `cancel` does. Call it
   * until `left` is 0. The run is `cancelled` at once. It ends here if no item is left, and otherwise with the `check` that
   * finds none; a check also cancels items that were on their way between two stages.
   */
  cancel(id: string, limit: number, by: By): Promise<{ readonly cancelled: number; readonly left: number }>
  /**
   * Redrives up to `limit` dead items at the stage where they died, with the value they had there, and opens their runs
   * again. `as` moves them to another stage; waiting items of the stage are moved too, and keep their attempts. Call it
   * until `moved` is 0, with `diedUntil` where workers are running. `RunBusyError` while a run is being cancelled.
   */
  reprocess(
    filter: ReprocessFilter,
    options: ReprocessOptions,
  ): Promise<{ readonly moved: number; readonly reopened: readonly string[] }>
  /** Succeeded items that have not been written out, up to `limit`. */
  outputs(id: string, limit: number): Promise<readonly OutputRow[]>
  /** Notes that items were written out, and the length of the file with them. */
  written(id: string, ids: readonly string[], outputBytes: number): Promise<void>
}
