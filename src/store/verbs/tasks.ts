import type { By } from '../contract/ledger.js'
import type { Steps, Tx } from '../port/steps.js'
import { cancelRecord, discardRecord, editRecord } from '../rules/operator-record.js'
import { discardTasks } from './batches.js'
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
