import { ARRANGING_ACTS, type ArrangingAct, type OperationAct } from '../contract/operation-store.js'
import type { TaskStatus } from '../contract/task.js'
import type { PartOfOperation } from './operations/operation-rules.js'

/**
 * Which tasks an operator's acts change; after-settlement.ts says what becomes of them. Pure. Memory and SQLite share it;
 * PostgreSQL has it in the SQL functions of these acts, and the conformance suite holds for all three.
 */

/** Whether a task can be cancelled. */
interface Living {
  readonly status: TaskStatus
  readonly isToBeCancelled: boolean
}

/** The entry of a cancellation: a waiting task ends at once, a running one with its attempt. `undefined`: there is nothing to cancel. */
export function cancellationOf({ status, isToBeCancelled }: Living): 'cancelled' | 'cancel_requested' | undefined {
  if (isToBeCancelled) return undefined
  if (status === 'waiting') return 'cancelled'
  return status === 'running' ? 'cancel_requested' : undefined
}

/** Whether an act changes when a waiting task is due, or its priority. */
export function isArranging(act: OperationAct): act is ArrangingAct {
  return ARRANGING_ACTS.some(each => each === act)
}

/** Whether an act is on tasks that have not ended. */
export function isOnLiving(act: OperationAct): boolean {
  return act === 'cancel' || isArranging(act)
}

/** Whether a task is in the set of an act now. */
export function isActedOn(act: OperationAct, task: Living): boolean {
  return isOnLiving(act) ? cancellationOf(task) !== undefined : task.status === 'dead'
}

/**
 * Whether a dead task may be moved: any one by a person, and by an operation one of its set. It moves each of them once,
 * though the clock may be set back.
 */
export function isInPart(
  { changedAt, operation }: { readonly changedAt: number; readonly operation?: string | undefined },
  part: PartOfOperation | undefined,
): boolean {
  return part === undefined || (changedAt <= part.diedUntil && operation !== part.operation)
}

/** How a person ends a task: it is done, perhaps with a result, or given up. */
export type EndByHand = { readonly type: 'succeeded'; readonly result?: string | undefined } | { readonly type: 'dead' }

/**
 * Whether a person may give a task that has ended this end. One that waits is cancelled first, and one that runs belongs to its
 * worker until it has ended. An item keeps its end, since its run counts it.
 */
export function isToEndAs(
  { type }: EndByHand,
  { status, isItem }: { readonly status: TaskStatus; readonly isItem: boolean },
): boolean {
  return !isItem && (status === 'cancelled' || (status === 'dead' && type === 'succeeded'))
}

/** Whether a task may be deleted. A dead letter is discarded first. Items are pruned with their run. */
export function isRemovable({ status, isItem }: { readonly status: TaskStatus; readonly isItem: boolean }): boolean {
  return !isItem && (status === 'succeeded' || status === 'skipped' || status === 'cancelled')
}

/** Whether the payload of a task may be replaced. An item keeps its own, since later stages have its value. */
export function isEditable({ status, isItem }: { readonly status: TaskStatus; readonly isItem: boolean }): boolean {
  return !isItem && (status === 'waiting' || status === 'dead')
}

/** Whether a task is as an operation has left it, so that this can be undone. `last` is its last entry on the ledger. */
export function isAsMoved(
  { status, changedAt }: { readonly status: TaskStatus; readonly changedAt: number },
  last: { readonly outcome: string; readonly endedAt: number },
): boolean {
  const isMoved =
    (status === 'waiting' && last.outcome === 'redriven') || (status === 'cancelled' && last.outcome === 'discarded')
  // A task that was claimed and handed back since has run, and its state is younger than its row.
  return isMoved && last.endedAt === changedAt
}
