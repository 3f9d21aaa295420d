import type {
  BatchChunk,
  BatchCount,
  BatchEndTask,
  BatchRecord,
  BatchStatus,
  Reopening,
} from '../../contract/batch-store.js'
import type { By } from '../../contract/ledger.js'
import type { ItemCounts } from '../../contract/run-store.js'
import type { Retention } from '../../contract/store.js'
import type { NewTask } from '../../contract/task.js'
import type { StoredRecord } from '../../port/record-port.js'
import { noTasks } from '../task-state.js'
import { endId } from './members.js'

/** The rules of a batch's record. Pure: a verb loads it under its lock, applies a rule, and saves it. */

/** The type of their records, whose place is the time of their creation. */
export const BATCH = 'batch'

/** The record as it is kept: without the counts, which are those of its members. */
export interface BatchState extends Omit<BatchRecord, 'status' | 'counts'> {
  /** All members were added. */
  readonly isFull: boolean
  /** Whether it had dead members when it last ended, or when some of them were discarded since. */
  readonly hasDead: boolean
}

/** A new batch. */
export function openedBatch(name: string, { onEnd }: BatchChunk, now: number): BatchState {
  return {
    name,
    onEnd,
    isFull: false,
    hasDead: false,
    endings: 0,
    reopened: undefined,
    createdAt: now,
    endedAt: undefined,
  }
}

/** After a redrive of dead members. One that has ended is open again. */
export function reopenedBatch(state: BatchState, members: number, by: By, now: number): BatchState {
  const reopened: Reopening = { who: by.who, why: by.why, at: now, members }
  return { ...state, reopened, endedAt: undefined }
}

/** After its end, with the task that follows. */
export function endedBatch(
  state: BatchState,
  counts: ItemCounts,
  now: number,
): { readonly state: BatchState; readonly task: NewTask | undefined } {
  const endings = state.endings + 1
  const next = { ...state, endings, endedAt: now, hasDead: counts.dead > 0 }
  return { state: next, task: next.onEnd && endTask(next, next.onEnd, counts) }
}

function endTask({ name: batch, endings: ending }: BatchState, onEnd: BatchEndTask, counts: ItemCounts): NewTask {
  const { waiting: _w, running: _r, ...ended } = counts
  const about = JSON.stringify({ batch, status: endStatus(counts), counts: ended, ending }).slice(0, -1)
  // The payload is JSON text already.
  return { ...onEnd, id: endId(batch, ending), payload: `${about},"payload":${onEnd.payload}}` }
}

/** The status that a batch ends with. */
export function endStatus({ succeeded, skipped, dead, cancelled }: ItemCounts): BatchStatus {
  if (dead + cancelled === 0) return 'completed'
  return succeeded + skipped > 0 ? 'partial_success' : 'failed'
}

/** The record that readers see. */
export function batchRecord(state: BatchState, tally: readonly BatchCount[]): BatchRecord {
  const { isFull, hasDead: _, ...fields } = state
  const counts = countsOf(tally)
  const open = isFull ? 'running' : 'filling'
  return { ...fields, counts, status: state.endedAt === undefined ? open : endStatus(counts) }
}

/** Members by status. */
export function countsOf(tally: readonly BatchCount[]): ItemCounts {
  const counts = noTasks()
  for (const { status, count } of tally) counts[status] += count
  return counts
}

/** Whether a batch has ended for longer than its retention, which is that of its dead letters too if it has some. */
export function isForgettable({ endedAt, hasDead }: BatchState, { endedMs, deadMs }: Retention, now: number): boolean {
  if (endedAt === undefined || endedMs === undefined || endedAt > now - endedMs) return false
  return !hasDead || (deadMs !== undefined && endedAt <= now - deadMs)
}

/** A batch as a record. */
export function batchRow(state: BatchState): StoredRecord {
  const { name: id, createdAt: place, endedAt } = state
  return { id, place, isOpen: endedAt === undefined, state: JSON.stringify(state) }
}

/** A batch of its record. JSON leaves out fields that are `undefined`. */
export function batchState({ state }: StoredRecord): BatchState {
  return { onEnd: undefined, reopened: undefined, endedAt: undefined, ...JSON.parse(state) }
}
