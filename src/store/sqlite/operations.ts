import type { Before, By } from '../contract/ledger.js'
import type { TaskFilter } from '../contract/list.js'
import { AGES, type OperationAct, type OperationMember } from '../contract/operation-store.js'
import type { KeptOperation, OperationPort } from '../port/operation-port.js'
import type { RunPort } from '../port/run-port.js'
import { afterUndo } from '../rules/after-settlement.js'
import { compareTexts } from '../rules/cursor.js'
import { isOpen, NO_TALLY, operationState } from '../rules/operations/operation-rules.js'
import { undonePage } from '../rules/operations/set.js'
import { hasItems } from '../rules/runs/items.js'
import { State, statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import { deadAmong } from './operators.js'
import { change, standingOf } from './settle.js'
import type { MemberRow, OperationStatements } from './statements/operations.js'
import type { Statements } from './statements.js'

/** The primitives of operations on SQLite. There is one writer at a time, so what was read is current. */
export function sqliteOperationPort(runs: RunPort, statements: OperationStatements, tasks: Statements): OperationPort {
  const { now } = runs
  const kept = (row: { readonly state: string }): KeptOperation => {
    const state = operationState(row.state)
    return { state, tally: statements.tally.get(state.id) ?? NO_TALLY }
  }
  const operation = (id: string) => {
    const row = statements.get.get(id)
    return row && kept(row)
  }
  return {
    ...runs,
    operation,
    lockOperation: id => {
      const found = operation(id)
      return found && { ...found, now: now() }
    },
    operations: (isOpenOnly, { changedAt, id }, limit) =>
      statements.list.all(isOpenOnly ? 1 : 0, changedAt, changedAt, id, limit).map(kept),
    saveOperation: state => {
      const { id, createdAt: created_at } = state
      statements.save.run({ id, created_at, open: isOpen(state) ? 1 : 0, state: JSON.stringify(state) })
    },
    deadPayloads: ids =>
      deadAmong(tasks, ids).flatMap(({ id, seq, lane }) =>
        hasItems(lane) ? [] : { id, payload: tasks.payload.get(seq) ?? '' },
      ),
    replacePayloads: edits => {
      for (const { id, before, after } of edits) {
        const seq = tasks.state.get(id)?.seq ?? 0
        tasks.keepPayload.run({ seq, payload: before })
        tasks.patch.run({ seq, payload: after })
      }
    },
    namedMembers: (act, ids, until) =>
      ids.flatMap(id => {
        const row = statements.named.get(id)
        if (row === undefined) return []
        const isLiving = row.state <= State.running && row.cancel_requested === 0
        const isIn = act === 'cancel' ? isLiving : row.state === State.dead && row.changed_at <= until
        return isIn ? { ...memberOf(row), errorCode: row.error_code ?? undefined } : []
      }),
    members: (act, { filter, until }, { changedAt: at, id }, limit) => {
      const scope = { ...scopeOf(filter, until), at, id, limit }
      const rows = memberReads(statements, act, filter).flatMap(statement => statement.all(scope).map(memberOf))
      return rows.sort((a, b) => a.changedAt - b.changedAt || compareTexts(a.id, b.id))
    },
    survey: (act, { filter, until }) => {
      const scope = { ...scopeOf(filter, until), now: now() }
      const rows = surveys(statements, act, filter).flatMap(statement => statement.all(scope))
      return rows.map(({ kind, category, error_code, paused, age, count }) => {
        const errorCode = error_code ?? undefined
        return { kind, category, errorCode, isPaused: paused === 1, age: AGES[age] ?? 'older', count }
      })
    },
    deaths: id =>
      statements.deaths.all(id).map(({ kind, error_code, failure_group, count }) => {
        return { kind, errorCode: error_code ?? undefined, group: failure_group ?? undefined, count }
      }),
    restore: (id, after, limit, by, at) => {
      const rows = statements.moved.all(id, after, limit + 1)
      const book = new LaneBook(tasks)
      const count = rows.slice(0, limit).filter(row => restore(statements, tasks, book, row, by, at)).length
      book.write()
      return undonePage(rows, limit, count)
    },
  }
}

/** Puts a member back as it was, if it has not run since. */
function restore(
  statements: OperationStatements,
  tasks: Statements,
  book: LaneBook,
  { seq, lane, state }: { readonly seq: number; readonly lane: number; readonly state: number },
  by: By,
  now: number,
): boolean {
  const row = statements.standing.get(seq)
  if (row === undefined || hasItems(lane)) return false
  const last = statements.act.get(seq, row.entries)
  const isAsMoved =
    (state < State.running && last?.outcome === 'redriven') ||
    (state === State.cancelled && last?.outcome === 'discarded')
  // A task that was claimed and handed back since has run, and its state is younger than its row.
  if (!isAsMoved || last.before === null || last.ended_at !== row.changed_at) return false
  const before = JSON.parse(last.before) as Before
  change(tasks, book, row, statusOf(state), afterUndo(standingOf(row), before, by, now), now)
  statements.restore.run(before.changedAt ?? now, before.payload ?? null, seq)
  return true
}

function memberReads(statements: OperationStatements, act: OperationAct, { errorCode, group }: TaskFilter) {
  const { living, dead, deadByError, deadInGroup } = statements
  if (act === 'cancel') return living
  if (group !== undefined) return deadInGroup
  return errorCode === undefined ? dead : deadByError
}

function surveys(statements: OperationStatements, act: OperationAct, { group }: TaskFilter) {
  const { surveyLiving, surveyDead, surveyGroup } = statements
  if (act === 'cancel') return surveyLiving
  return group === undefined ? surveyDead : surveyGroup
}

function memberOf({ id, kind, category, key, changed_at, ordered, paused }: MemberRow): OperationMember {
  return { id, kind, category, key, changedAt: changed_at, isOrdered: ordered === 1, isPaused: paused === 1 }
}

function scopeOf({ kind, category, key, errorCode, group }: TaskFilter, until: number) {
  return {
    kind: kind ?? null,
    category: category ?? null,
    key: key ?? null,
    error_code: errorCode ?? null,
    failure_group: group ?? null,
    until,
  }
}
