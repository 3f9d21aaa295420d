import type { By } from '../contract/ledger.js'
import { afterDiscard, afterSettlement, EXPIRED } from '../rules/after-settlement.js'
import type { TaskPlace } from '../rules/cursor.js'
import { acted } from '../rules/ledger-change.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { cancellationOf, isEditable, isInPart } from '../rules/operator-acts.js'
import { hasItems } from '../rules/runs/items.js'
import { statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import { writeLedger } from './ledger.js'
import { noteMember } from './operation-tally.js'
import { release } from './release-key.js'
import { change, standingOf } from './settle.js'
import type { DeadRow, StateRow } from './statements/operators.js'
import type { StandingRow } from './statements/standing-row.js'
import type { Statements } from './statements.js'

/**
 * Ends waiting tasks and marks running ones, each on record if somebody asked for it. Returns the ids that it has ended or
 * marked. Within a transaction.
 */
export function cancel(statements: Statements, ids: readonly string[], by: By | undefined, now: number): string[] {
  const book = new LaneBook(statements)
  const cancelled = [...new Set(ids)].filter(id => {
    const task = statements.state.get(id)
    if (task === undefined) return false
    const act = cancellationOf({ status: statusOf(task.state), isToBeCancelled: task.cancel_requested === 1 })
    if (act === undefined) return false
    if (by !== undefined) writeLedger(statements, task.seq, task.lane, task.entries, acted(act, by, now))
    const rows = by === undefined ? 0 : 1
    if (act === 'cancel_requested') statements.requestCancel.run(rows, task.seq)
    else endWaiting(statements, book, id, task, rows, now)
    return true
  })
  book.write()
  return cancelled
}

function endWaiting(
  statements: Statements,
  book: LaneBook,
  id: string,
  task: StateRow,
  rows: number,
  now: number,
): void {
  const status = statusOf(task.state)
  statements.cancel.run(now, rows, task.seq)
  noteMember(statements, task, { status: 'cancelled', ledger: { type: 'none' } })
  book.move(task.lane, status, 'cancelled')
  book.groups.leave(task.failure_group, status, now)
  release(statements, book, { ...task, id }, 'cancelled', now)
  // A rate limit still holds for the tasks behind this one.
  if (book.isOrdered(task.lane) && statements.lastOutcome.get(task.seq, task.entries) !== 'deferred')
    book.freeHead(task.lane, id)
}

/** The dead tasks among these, each once, that `isInPart` says may be moved. */
export function deadAmong(statements: Statements, ids: readonly string[], part?: PartOfOperation): DeadRow[] {
  const { operation = null, diedUntil = Number.MAX_SAFE_INTEGER } = part ?? {}
  return statements.deadAmong.all({ ids: JSON.stringify([...new Set(ids)]), until: diedUntil, operation })
}

/**
 * Gives dead tasks fresh attempts, on record. Returns their ids. Within a transaction. It does the same as `afterRedrive`, to
 * all of them at once.
 */
export function redrive(
  statements: Statements,
  tasks: readonly DeadRow[],
  { who, why = null }: { readonly who: string; readonly why?: string | null },
  now: number,
  operation: string | null = null,
): string[] {
  const seqs = JSON.stringify(tasks.map(({ seq }) => seq).sort((a, b) => a - b))
  statements.recordRedrive.run({ seqs, now, who, why })
  statements.redrive.run({ seqs, now, operation })
  const book = new LaneBook(statements)
  for (const { lane, failure_group } of tasks) {
    book.move(lane, 'dead', 'waiting')
    book.groups.leave(failure_group, 'dead', now)
    book.groups.enter(failure_group, 'waiting', now)
  }
  book.write()
  return tasks.map(({ id }) => id)
}

/** Gives dead tasks up for good, on record. Returns the ids that it changed. Within a transaction. */
export function discard(
  statements: Statements,
  ids: readonly string[],
  by: Required<By>,
  now: number,
  part?: PartOfOperation,
): string[] {
  const operation = part?.operation ?? null
  const book = new LaneBook(statements)
  const discarded = ids.filter(id => {
    const row = statements.dead.get(id)
    if (row === undefined || hasItems(row.lane) || !isInPart(placeOf(row), part)) return false
    if (row.operation !== operation) statements.mark.run(operation, row.seq)
    change(statements, book, row, 'dead', afterDiscard(standingOf(row), by, now), now)
    return true
  })
  book.write()
  return discarded
}

/** Gives up waiting tasks that have not changed since, without an attempt. Returns their ids. Within a transaction. */
export function expire(statements: Statements, tasks: readonly TaskPlace[], now: number): string[] {
  const book = new LaneBook(statements)
  const expired = tasks.filter(({ id, changedAt }) => {
    const row = statements.expiring.get(id, changedAt)
    if (row === undefined) return false
    const after = afterSettlement(standingOf(row), EXPIRED, undefined, now)
    noteMember(statements, row, after)
    change(statements, book, row, 'waiting', after, now)
    return true
  })
  book.write()
  return expired.map(({ id }) => id)
}

/** Replaces the payload of a task that waits or is dead, on record. Returns whether there was one. Within a transaction. */
export function edit(statements: Statements, id: string, payload: string, by: By, now: number): boolean {
  const task = statements.state.get(id)
  if (task === undefined || !isEditable({ status: statusOf(task.state), isItem: hasItems(task.lane) })) return false
  const { seq, lane, entries } = task
  const before = statements.payload.get(seq) ?? ''
  writeLedger(statements, seq, lane, entries, acted('edited', by, now, { payload: before }))
  statements.edit.run(payload, seq)
  return true
}

function placeOf({ changed_at: changedAt, operation }: StandingRow) {
  return { changedAt, operation: operation ?? undefined }
}
