import type { By } from '../contract/ledger.js'
import type { FailedTask } from '../contract/store.js'
import type { Steps, Tx } from '../port/steps.js'
import { batchOf } from '../rules/batches/members.js'
import type { EndByHand } from '../rules/operator-acts.js'
import { byHandRecord, cancelRecord, discardRecord, editRecord } from '../rules/operator-record.js'
import { addUpBatches, discardTasks, lockBatches } from './batches.js'
import { cancelTasks } from './runs.js'

/** Cancels tasks, on record if somebody asked for it. Returns the ids that end. */
export function* cancelOnRecord(tx: Tx, ids: readonly string[], by: By | undefined): Steps<string[]> {
  const now = yield* tx.clock.now()
  const ending = yield* cancelTasks(tx, ids, by, now)
  if (by !== undefined) yield* tx.audit.append(cancelRecord(ending, by, now), now)
  return ending
}

/** Gives up dead tasks, on record. Returns the ids that it changed. */
export function* discardOnRecord(tx: Tx, ids: readonly string[], by: Required<By>): Steps<string[]> {
  const now = yield* tx.clock.now()
  const discarded = yield* discardTasks(tx, ids, by, now)
  yield* tx.audit.append(discardRecord(discarded, by, now), now)
  return discarded
}

/** Replaces the payload of a task, on record. Returns whether there was one that could be edited. */
export function* editOnRecord(tx: Tx, id: string, payload: string, by: By): Steps<boolean> {
  const now = yield* tx.clock.now()
  const isEdited = yield* tx.tasks.edit(id, payload, by, now)
  if (isEdited) yield* tx.audit.append(editRecord(id, by, now), now)
  return isEdited
}

/** Ends tasks as succeeded that do not run, on record. Returns the ids that it changed. */
export function* completeOnRecord(tx: Tx, ids: readonly string[], result: string | undefined, by: By): Steps<string[]> {
  const now = yield* tx.clock.now()
  const completed = yield* endByHand(tx, ids, { type: 'succeeded', result }, by, now)
  yield* tx.audit.append(byHandRecord('tasks_completed', completed, by, now), now)
  return completed
}

/** Makes dead letters of tasks that do not run, on record, and enqueues what follows their deaths. Returns the ids that it changed. */
export function* failOnRecord(tx: Tx, tasks: readonly FailedTask[], by: Required<By>): Steps<string[]> {
  const now = yield* tx.clock.now()
  const ids = tasks.map(({ id }) => id)
  const failed = yield* endByHand(tx, ids, { type: 'dead' }, by, now)
  const isFailed = new Set(failed)
  const followers = tasks.flatMap(({ id, ifDead = [] }) => (isFailed.has(id) ? ifDead : []))
  if (followers.length > 0) yield* tx.tasks.enqueue(followers, now)
  yield* tx.audit.append(byHandRecord('tasks_failed', failed, by, now), now)
  return failed
}

/** Deletes tasks that do not run and that nobody counts, on record. Returns their ids. */
export function* deleteOnRecord(tx: Tx, ids: readonly string[], by: By): Steps<string[]> {
  const now = yield* tx.clock.now()
  // A batch that is on record counts its members.
  const batches = yield* lockBatches(tx, ids)
  const free = (yield* withoutItems(tx, ids)).filter(id => !batches.has(batchOf(id) ?? ''))
  yield* tx.tasks.withdraw(free, now)
  yield* tx.tasks.discard(free, by, now)
  const deleted = yield* tx.tasks.remove(free, now)
  yield* tx.audit.append(byHandRecord('tasks_deleted', deleted, by, now), now)
  return deleted
}

/** Gives tasks another end: those that wait are cancelled first, so that they leave their lanes, keys and budgets as always. */
function* endByHand(tx: Tx, ids: readonly string[], end: EndByHand, by: By, now: number): Steps<string[]> {
  const batches = yield* lockBatches(tx, ids)
  const own = yield* withoutItems(tx, ids)
  yield* tx.tasks.withdraw(own, now)
  const ended = yield* tx.tasks.finish(own, end, by, now)
  yield* addUpBatches(tx, batches, now)
  return ended
}

/** Each of these tasks once that is no item of a run. */
function* withoutItems(tx: Tx, ids: readonly string[]): Steps<string[]> {
  const items = yield* tx.tasks.itemsOf(ids)
  return [...new Set(ids)].filter(id => !items.has(id))
}
