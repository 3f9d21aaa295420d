import type { Before, By } from '../contract/ledger.js'
import type { ArrangingAct } from '../contract/operation-store.js'
import type { TaskRecord } from '../contract/task.js'
import { acted, type LedgerChange } from './ledger-change.js'
import { QUEUED_UNTIL } from './unique.js'

/**
 * Changes of tasks that wait: when they are due, and their priority. Pure. Memory and SQLite share them; PostgreSQL has them in
 * `arrange` of functions/arrange.sql, and the conformance suite and the model test hold for all three.
 */

/** The change to one waiting task. An absent field stays as it is. */
export interface Arrangement {
  readonly id: string
  /** When it is due. */
  readonly runAt?: number | undefined
  readonly priority?: number | undefined
  /** When its time to live begins to count. Default: when it is due, unless an attempt has begun. */
  readonly startedAt?: number | undefined
}

/** The row that a change leaves on the ledger. */
export type ArrangedAs = 'promoted' | 'rescheduled' | 'prioritized' | 'undone'

/** A waiting task, as far as a change depends on it. */
export interface Arrangeable extends Pick<TaskRecord, 'priority' | 'startedAt' | 'attempts' | 'deferrals' | 'losses'> {
  readonly nextAttemptAt: number
  /** The input of an item's present stage, if that is not its first. */
  readonly value?: string | null | undefined
  /** Whether its lane is ordered. */
  readonly isOrdered: boolean
  /** Whether the last row of its ledger is a deferral: then its lane may be held by a rate limit. */
  readonly isDeferred: boolean
}

/** Where a task stands after a change. */
export interface Arranged extends Pick<TaskRecord, 'priority' | 'startedAt'> {
  readonly nextAttemptAt: number
}

/**
 * The place of a waiting task after a change; `undefined` if it stays as it is. Nothing changes the order of an ordered lane: there a
 * task can only be made due, which ends the hold of its lane unless a rate limit has asked for that.
 */
export function arranged(task: Arrangeable, wanted: Arrangement, now: number): Arranged | undefined {
  const { runAt, priority = task.priority } = wanted
  // It would run beside its twin.
  if (task.nextAttemptAt === QUEUED_UNTIL) return undefined
  const nextAttemptAt = runAt === undefined ? task.nextAttemptAt : Math.ceil(runAt)
  const isSameTime = nextAttemptAt === task.nextAttemptAt || Math.max(nextAttemptAt, task.nextAttemptAt) <= now
  const isSamePriority = priority === task.priority
  if (isSameTime && isSamePriority) return undefined
  if (task.isOrdered && (!isSamePriority || nextAttemptAt > now || task.isDeferred)) return undefined
  return { nextAttemptAt, priority, startedAt: startAfter(task, wanted, now) }
}

function startAfter(task: Arrangeable, { runAt, startedAt }: Arrangement, now: number): number {
  if (startedAt !== undefined) return startedAt
  const { attempts, deferrals, losses, value = null } = task
  const hasBegun = attempts > 0 || deferrals > 0 || losses > 0 || value !== null
  return runAt === undefined || hasBegun ? task.startedAt : Math.max(now, Math.ceil(runAt))
}

/** The row of a change. It keeps what was there before, so that it can be undone. */
export function arrangedRow(
  as: ArrangedAs,
  { nextAttemptAt, priority, startedAt }: Arranged,
  by: By,
  now: number,
  operation: string | undefined,
): LedgerChange {
  return acted(as, by, now, as === 'undone' ? undefined : { nextAttemptAt, priority, startedAt, operation })
}

/** How an act changes a task that waits. */
export function arrangementOf(
  act: ArrangingAct,
  { runAt, priority }: { readonly runAt?: number | undefined; readonly priority?: number | undefined },
  now: number,
): Omit<Arrangement, 'id'> {
  switch (act) {
    case 'promote':
      return { runAt: now }
    case 'reschedule':
      return { runAt }
    case 'prioritize':
      return { priority }
  }
}

/** The change that puts a task back, if an operation made the last one and the task has not run since. */
export function arrangementBefore(
  { id, changedAt }: Pick<TaskRecord, 'id' | 'changedAt'>,
  last: { readonly outcome: string; readonly endedAt: number; readonly before?: Before | undefined } | undefined,
  operation: string,
): Arrangement | undefined {
  const before = last?.before
  if (last === undefined || before?.operation !== operation || changedAt > last.endedAt) return undefined
  return { id, runAt: before.nextAttemptAt, priority: before.priority, startedAt: before.startedAt }
}
