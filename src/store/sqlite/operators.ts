import type { LaneLimits, LaneSelection, SharedLimits } from '../contract/lane.js'
import type { By } from '../contract/ledger.js'
import { afterDiscard } from '../rules/after-settlement.js'
import { isOneLane } from '../rules/lane-limits.js'
import { acted } from '../rules/ledger-change.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { discardRecord, editRecord, limitRecord, pauseRecord } from '../rules/operator-record.js'
import { hasItems } from '../rules/runs/items.js'
import { NEW_STATE, relimited } from '../rules/shared-limit.js'
import { State, statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import type { LaneIds } from './lane-ids.js'
import { writeLedger } from './ledger.js'
import { noteMember } from './operation-tally.js'
import { change, standingOf } from './settle.js'
import { parsedShared } from './shared-book.js'
import type { DeadRow, StateRow } from './statements/operators.js'
import type { Statements } from './statements.js'

/**
 * Ends waiting tasks and marks running ones, each on record if somebody asked for it. Returns the ids that it has ended or
 * marked. Within a transaction.
 */
export function cancel(statements: Statements, ids: readonly string[], by: By | undefined, now: number): string[] {
  const book = new LaneBook(statements)
  const cancelled = [...new Set(ids)].filter(id => {
    const task = statements.state.get(id)
    if (task === undefined || task.state > State.running || task.cancel_requested === 1) return false
    const isRunning = task.state === State.running
    const act = isRunning ? 'cancel_requested' : 'cancelled'
    if (by !== undefined) writeLedger(statements, task.seq, task.lane, task.entries, acted(act, by, now))
    const rows = by === undefined ? 0 : 1
    if (isRunning) statements.requestCancel.run(rows, task.seq)
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
  // A rate limit still holds for the tasks behind this one.
  if (book.isOrdered(task.lane) && statements.lastOutcome.get(task.seq, task.entries) !== 'deferred')
    book.freeHead(task.lane, id)
}

/** The dead tasks among these, each once; for an operation, those of its set that it has not moved. */
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
    if (row === undefined || hasItems(row.lane) || row.changed_at > (part?.diedUntil ?? Infinity)) return false
    if (row.operation !== operation) statements.mark.run(operation, row.seq)
    change(statements, book, row, 'dead', afterDiscard(standingOf(row), by, now), now)
    return true
  })
  book.write()
  if (operation === null) statements.appendAudit.run(now, discardRecord(discarded, by, now))
  return discarded
}

/** Replaces the payload of a task that waits or is dead, on record. Returns whether there was one. Within a transaction. */
export function edit(statements: Statements, id: string, payload: string, by: By, now: number): boolean {
  const task = statements.editable.get(id)
  if (task === undefined) return false
  const { seq, lane, entries } = task
  writeLedger(statements, seq, lane, entries, acted('edited', by, now, { payload: task.payload }))
  statements.edit.run(payload, seq)
  statements.appendAudit.run(now, editRecord(id, by, now))
  return true
}

/** Pauses or resumes all lanes that match, including lanes that are made later. Within a transaction. */
export function pause(
  statements: Statements,
  lanes: LaneSelection,
  isPaused: boolean,
  by: By | undefined,
  now: number,
): void {
  setPause(statements, lanes, isPaused, by, now)
  if (by !== undefined) statements.appendAudit.run(now, pauseRecord(lanes, isPaused, by, now))
}

/** As `pause`, without a record in the audit log. */
export function setPause(
  statements: Statements,
  lanes: LaneSelection,
  isPaused: boolean,
  by: By | undefined,
  now: number,
): void {
  const rule = { kind: lanes.kind, category: lanes.category ?? null, key: lanes.key ?? null }
  const paused = isPaused ? 1 : 0
  // The new rule replaces those that it covers.
  statements.dropPauseRules.run(rule)
  statements.addPauseRule.run({ ...rule, paused, at: now, who: by?.who ?? null, why: by?.why ?? null })
  statements.keepRunPauses.run({ kind: rule.kind, key: rule.key })
  statements.pause.run({ ...rule, paused })
}

/** Limits all lanes that match together, including lanes that are made later. Within a transaction. */
export function share(
  statements: Statements,
  lanes: LaneSelection,
  limits: SharedLimits,
  by: By | undefined,
  now: number,
): void {
  const rule = { kind: lanes.kind, category: lanes.category ?? null }
  const id = changeShared(statements, rule, limits)
  // The new rule replaces those that it covers.
  statements.share.run({ ...rule, id })
  statements.dropShared.run({ ...rule, id })
  if (by !== undefined) statements.appendAudit.run(now, limitRecord(lanes, limits, by, now))
}

/** Writes the limits of a selection. Returns the id of the record. */
function changeShared(
  statements: Statements,
  rule: { readonly kind: string; readonly category: string | null },
  limits: SharedLimits,
): number {
  const known = statements.sharedFor.get(rule)
  const text = JSON.stringify(limits)
  if (known === undefined) {
    const added = statements.addShared.run({ ...rule, limits: text, state: JSON.stringify(NEW_STATE) })
    return Number(added.lastInsertRowid)
  }
  const before = parsedShared(known)
  const state = JSON.stringify(relimited(before.state, before.limits, limits))
  statements.changeShared.run({ id: known.id, limits: text, state })
  return known.id
}

/** Limits all lanes that match, including lanes that are made later. Within a transaction. */
export function limit(
  statements: Statements,
  known: LaneIds,
  lanes: LaneSelection,
  limits: LaneLimits,
  by: By | undefined,
  now: number,
): void {
  const { concurrency = null, perSecond: per_second = null, isOrdered } = limits
  const columns = { concurrency, per_second, ordered: isOrdered ? 1 : 0 }
  if (isOneLane(lanes)) {
    // A single lane is made if it does not exist, so it needs no rule.
    known.begin()
    const id = known.of(lanes.kind, lanes.category, lanes.key)
    statements.limitLane.run({ id, ...columns, now })
  } else {
    const rule = { kind: lanes.kind, category: lanes.category ?? null, key: lanes.key ?? null }
    statements.dropLimitRules.run(rule)
    statements.addLimitRule.run({ ...rule, ...columns })
    statements.limitLanes.run({ ...rule, ...columns, now })
  }
  if (by !== undefined) statements.appendAudit.run(now, limitRecord(lanes, limits, by, now))
}
