import { traceIdOf } from '../../telemetry/internal.js'
import type { Settled } from '../contract/claim.js'
import type { LedgerRow } from '../contract/ledger.js'
import type { StepRow } from '../contract/step.js'
import type { Cost, NewTask, TaskRecord } from '../contract/task.js'
import { NO_FAILURES, type Standing } from '../rules/after-settlement.js'
import type { LedgerChange } from '../rules/ledger-change.js'
import { triedForMs } from '../rules/tried-for.js'
import { MemoryHeap } from './heap.js'
import type { MemoryLane } from './lane.js'

/** Who runs a task. */
export interface Lease {
  readonly worker: string
  readonly token: string
}

/** A task in the memory store: its record, which is replaced and never changed, and what goes with it. */
export interface MemoryTask {
  record: TaskRecord
  /** Changes when an item advances to its next stage. */
  lane: MemoryLane
  /** Its cost for shared limits. */
  cost: Cost | undefined
  readonly ledger: LedgerRow[]
  /** Its steps by name, in the order in which they were first recorded. */
  readonly steps: Map<string, StepRow>
  /** When it was last due. Heaps are ordered by it, so it stays when the record's time is cleared. */
  dueAt: number
  /** The retry budget that it waits under, until that has let it through. */
  budget: number | undefined
  /** Its owner while it runs. */
  lease: Lease | undefined
  /** The last advance, until the item is claimed or settled again: its token and the answer, should it be repeated. */
  advance: { readonly token: string; readonly to: string; readonly answer: Settled } | undefined
  /** Its last attempt was lost, and nobody has decided yet what follows. */
  isUndecided: boolean
  /** Somebody asked to cancel it while it was running. */
  isToBeCancelled: boolean
  /** It has made a counted attempt since an operation moved it. */
  hasAnswered: boolean
}

/** A task that has just been enqueued. */
export function newTask(task: NewTask & { readonly id: string }, lane: MemoryLane, now: number): MemoryTask {
  const { kind, category, key } = lane
  const { id, payload, priority = 0, submittedAt, runAt = now, cost, traceparent, unique, policy } = task
  const record: TaskRecord = {
    id,
    kind,
    category,
    key,
    payload,
    value: undefined,
    status: 'waiting',
    priority,
    submittedAt: Math.floor(submittedAt ?? lane.submittedAt(now)),
    startedAt: Math.max(now, Math.ceil(runAt)) - triedForMs(task),
    nextAttemptAt: Math.ceil(runAt),
    ...NO_FAILURES,
    reason: undefined,
    result: undefined,
    changedAt: now,
    traceparent,
    ...(unique && { unique: { key: unique.key, while: unique.while } }),
    ...(policy !== undefined && { policy }),
    operation: undefined,
  }
  return {
    record,
    lane,
    cost,
    ledger: [],
    steps: new Map(),
    dueAt: now,
    budget: undefined,
    lease: undefined,
    advance: undefined,
    isUndecided: false,
    isToBeCancelled: false,
    hasAnswered: false,
  }
}

/** The task as the rules of a settlement read it. */
export function standingOf({ record, isUndecided, isToBeCancelled }: MemoryTask): Standing {
  return { ...record, isUndecided, isToBeCancelled }
}

/** Applies a change of the ledger. */
export function writeLedger(
  { ledger, lane, record }: MemoryTask,
  change: LedgerChange,
  group: string | undefined,
): void {
  if (change.type === 'none') return
  if (change.type === 'append') {
    const category = lane.category === '' ? undefined : lane.category
    const isOnlyOne = change.row.outcome === 'succeeded' && !ledger.some(({ attempt }) => attempt > 0)
    const trace = change.row.trace ?? (isOnlyOne ? traceIdOf(record.traceparent) : undefined)
    return void ledger.push({ ...change.row, group, category, sequence: ledger.length + 1, trace })
  }
  // Somebody may have edited the task since, or asked to cancel it.
  const index = ledger.findLastIndex(({ outcome }) => outcome === 'lost')
  const row = ledger[index]
  if (row !== undefined) ledger[index] = { ...row, ...change.row }
}

/** Replaces the payload of a task that was redriven just now. Its original goes to the row of the redrive. */
export function keepOriginal(task: MemoryTask, before: string, after: string): void {
  const row = task.ledger.at(-1)
  if (row !== undefined) task.ledger[task.ledger.length - 1] = { ...row, before: { ...row.before, payload: before } }
  task.record = { ...task.record, payload: after }
}

/** Waiting tasks in the order in which they are claimed. Nothing that this order depends on ever changes. */
export function readyHeap(): MemoryHeap<MemoryTask> {
  return new MemoryHeap(goesBefore, isWaiting)
}

/** Waiting tasks in the order of their due times. */
export function scheduledHeap(): MemoryHeap<MemoryTask> {
  return new MemoryHeap((a, b) => a.dueAt < b.dueAt, isWaiting)
}

/** Retries under a budget in the order in which it lets them through. */
export function budgetedHeap(): MemoryHeap<MemoryTask> {
  return new MemoryHeap(isDueBefore, isWaiting)
}

/** Whether a retry is let through before another one. */
export function isDueBefore(a: MemoryTask, b: MemoryTask): boolean {
  return a.dueAt < b.dueAt || (a.dueAt === b.dueAt && a.record.id < b.record.id)
}

/** Whether a task is claimed before another one: priority, then `submittedAt`, then id. */
export function goesBefore({ record: a }: MemoryTask, { record: b }: MemoryTask): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority
  if (a.submittedAt !== b.submittedAt) return a.submittedAt < b.submittedAt
  return a.id < b.id
}

/** A claim takes a task out of its heap. A cancelled task stays in it until it comes to the front. */
function isWaiting({ record }: MemoryTask): boolean {
  return record.status === 'waiting'
}
