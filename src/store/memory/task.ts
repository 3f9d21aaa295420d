import type { LedgerRow, TaskRecord } from '../store.js'
import { MemoryHeap } from './heap.js'
import type { MemoryLane } from './lane.js'

/** A task in the memory store: its record, which is replaced and never changed, and what goes with it. */
export interface MemoryTask {
  record: TaskRecord
  readonly lane: MemoryLane
  readonly ledger: LedgerRow[]
  /** When it was last due. Unlike the record's time it stays when the task is cancelled, since a heap is ordered by it. */
  dueAt: number
  /** Whose it is while it runs. */
  lease: { readonly worker: string; readonly token: string } | undefined
  /** Its last attempt was lost, and nobody has decided yet what follows. */
  isUndecided: boolean
  /** Somebody asked to cancel it while it ran. */
  isToBeCancelled: boolean
}

/** Waiting tasks in the order in which they are claimed. None of what it depends on ever changes. */
export function readyHeap(): MemoryHeap<MemoryTask> {
  return new MemoryHeap(goesBefore, isWaiting)
}

/** Waiting tasks in the order of their times. */
export function scheduledHeap(): MemoryHeap<MemoryTask> {
  return new MemoryHeap((a, b) => a.dueAt < b.dueAt, isWaiting)
}

/** Whether a task is claimed before another one: priority, then `submittedAt`, then id. */
export function goesBefore({ record: a }: MemoryTask, { record: b }: MemoryTask): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority
  if (a.submittedAt !== b.submittedAt) return a.submittedAt < b.submittedAt
  return a.id < b.id
}

/** A task leaves the heaps by a claim, which takes it out, or by being cancelled, which leaves it to be dropped. */
function isWaiting({ record }: MemoryTask): boolean {
  return record.status === 'waiting'
}
