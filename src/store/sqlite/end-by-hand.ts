import type { By } from '../contract/ledger.js'
import { afterEndByHand } from '../rules/after-settlement.js'
import { type EndByHand, isRemovable, isToEndAs } from '../rules/operator-acts.js'
import { hasItems } from '../rules/runs/items.js'
import { statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import { cancel } from './operators.js'
import { forgetTask } from './prune.js'
import { change, standingOf } from './settle.js'
import type { Statements } from './statements.js'

/** Cancels those of these tasks that wait, off the record. Within a transaction. */
export function withdraw(statements: Statements, ids: readonly string[], now: number): void {
  const waiting = ids.filter(id => {
    const task = statements.state.get(id)
    return task !== undefined && statusOf(task.state) === 'waiting'
  })
  cancel(statements, waiting, undefined, now)
}

/** Gives tasks that have ended the end that a person says, on record. Returns their ids. Within a transaction. */
export function finish(statements: Statements, ids: readonly string[], end: EndByHand, by: By, now: number): string[] {
  const book = new LaneBook(statements)
  const finished = ids.filter(id => {
    const row = statements.ended.get(id)
    if (row === undefined) return false
    const status = statusOf(row.state)
    if (!isToEndAs(end, { status, isItem: hasItems(row.lane) })) return false
    if (row.operation !== null) statements.mark.run(null, row.seq)
    change(statements, book, row, status, afterEndByHand(standingOf(row), end, by, now), now)
    return true
  })
  book.write()
  return finished
}

/** Deletes tasks that have ended, with their history. Returns their ids. Within a transaction. */
export function remove(statements: Statements, ids: readonly string[], now: number): string[] {
  const book = new LaneBook(statements)
  const removed = ids.filter(id => {
    const row = statements.ended.get(id)
    if (row === undefined) return false
    const status = statusOf(row.state)
    if (!isRemovable({ status, isItem: hasItems(row.lane) })) return false
    forgetTask(statements, book, row, status, now)
    return true
  })
  book.write()
  return removed
}
