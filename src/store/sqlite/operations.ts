import type { Before, By } from '../contract/ledger.js'
import {
  AGES,
  type DeathsRow,
  type OperationAct,
  type OperationMember,
  type OperationTally,
  type SurveyRow,
} from '../contract/operation-store.js'
import type {
  DeadPayload,
  LivingPage,
  MemberScope,
  NamedMember,
  OperationPort,
  PayloadEdit,
  UndonePage,
} from '../port/operation-port.js'
import type { ColumnFilter } from '../port/read-port.js'
import { afterUndo } from '../rules/after-settlement.js'
import { compareTexts, type TaskPlace } from '../rules/cursor.js'
import { NO_TALLY } from '../rules/operations/operation-rules.js'
import { undonePage } from '../rules/operations/set.js'
import { isActedOn, isAsMoved, isOnLiving } from '../rules/operator-acts.js'
import { hasItems } from '../rules/runs/items.js'
import { statusOf } from '../rules/task-state.js'
import { LaneBook } from './lane-book.js'
import { deadAmong } from './operators.js'
import type { SqliteParts } from './port.js'
import { change, standingOf } from './settle.js'
import type { MemberRow, OperationStatements } from './statements/operations.js'
import type { Statements } from './statements.js'

/** The primitives of operations on SQLite. */
export class SqliteOperationPort implements OperationPort {
  readonly #operations: OperationStatements
  readonly #tasks: Statements
  readonly #now: () => number

  constructor({ statements, now }: SqliteParts, operations: OperationStatements) {
    this.#operations = operations
    this.#tasks = statements
    this.#now = now
  }

  tally(id: string): { tally: OperationTally; now: number } {
    return { tally: this.#operations.tally.get(id) ?? NO_TALLY, now: this.#now() }
  }

  tallies(ids: readonly string[]): ReadonlyMap<string, OperationTally> {
    return new Map(ids.map(id => [id, this.tally(id).tally]))
  }

  dropTallies(ids: readonly string[]): void {
    for (const id of ids) this.#operations.dropTally.run(id)
  }

  deadPayloads(ids: readonly string[]): DeadPayload[] {
    return deadAmong(this.#tasks, ids).flatMap(({ id, seq, lane }) =>
      hasItems(lane) ? [] : { id, payload: this.#tasks.payload.get(seq) ?? '' },
    )
  }

  replacePayloads(edits: readonly PayloadEdit[]): void {
    for (const { id, before, after } of edits) {
      const seq = this.#tasks.state.get(id)?.seq ?? 0
      this.#tasks.keepPayload.run({ seq, payload: before })
      this.#tasks.patch.run({ seq, payload: after })
    }
  }

  namedMembers(act: OperationAct, ids: readonly string[], until: number): NamedMember[] {
    const now = this.#now()
    return ids.flatMap(id => {
      const row = this.#operations.named.get({ id, now })
      if (row === undefined) return []
      const living = { status: statusOf(row.state), isToBeCancelled: row.cancel_requested === 1 }
      const isIn = isActedOn(act, living) && (isOnLiving(act) || row.changed_at <= until)
      return isIn ? { ...memberOf(row), errorCode: row.error_code ?? undefined } : []
    })
  }

  members(act: OperationAct, { filter, until }: MemberScope, place: TaskPlace, limit: number): OperationMember[] {
    const scope = { ...scopeOf(filter, until), now: this.#now(), at: place.changedAt, id: place.id, limit }
    const reads = memberReads(this.#operations, act, filter)
    const rows = reads.flatMap(statement => statement.all(scope).map(memberOf))
    return rows.sort((a, b) => a.changedAt - b.changedAt || compareTexts(a.id, b.id))
  }

  living({ filter, until }: MemberScope, after: string, upTo: number): LivingPage {
    const { last, count } = this.#operations.lastOf.get({ after, up_to: upTo }) ?? { last: null, count: 0 }
    const rows = this.#operations.livingUpTo.all({
      ...scopeOf(filter, until),
      now: this.#now(),
      after,
      last: last ?? '',
    })
    const members = rows.map(memberOf)
    return count < upTo || last === null ? { members } : { members, next: last }
  }

  survey(act: OperationAct, { filter, until }: MemberScope): SurveyRow[] {
    const scope = { ...scopeOf(filter, until), now: this.#now() }
    const rows = surveys(this.#operations, act, filter).flatMap(statement => statement.all(scope))
    return rows.map(({ kind, category, error_code, ordered, paused, standing, age, twin, count }) => {
      const lane = { isOrdered: ordered === 1, isPaused: paused === 1, hasTwin: twin === 1 }
      const facts = { errorCode: error_code ?? undefined, standing: standing ?? undefined, age: AGES[age] ?? 'older' }
      return { kind, category, ...lane, ...facts, count }
    })
  }

  deaths(id: string): DeathsRow[] {
    return this.#operations.deaths.all(id).map(({ kind, error_code, failure_group, count }) => {
      return { kind, errorCode: error_code ?? undefined, group: failure_group ?? undefined, count }
    })
  }

  restore(id: string, after: string, limit: number, by: By, now: number): UndonePage {
    const rows = this.#operations.moved.all(id, after, limit + 1)
    const book = new LaneBook(this.#tasks)
    const count = rows.slice(0, limit).filter(row => restore(this.#operations, this.#tasks, book, row, by, now)).length
    book.write()
    return undonePage(rows, limit, count)
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
  const status = statusOf(state)
  const place = { status, changedAt: row.changed_at }
  if (last === undefined || !isAsMoved(place, { outcome: last.outcome, endedAt: last.ended_at })) return false
  if (last.before === null) return false
  const before = JSON.parse(last.before) as Before
  change(tasks, book, row, status, afterUndo(standingOf(row), before, by, now), now)
  statements.restore.run(before.changedAt ?? now, before.payload ?? null, seq)
  return true
}

function memberReads(statements: OperationStatements, act: OperationAct, { errorCode, group }: ColumnFilter) {
  const { living, dead, deadByError, deadInGroup } = statements
  if (isOnLiving(act)) return living
  if (group !== undefined) return deadInGroup
  return errorCode === undefined ? dead : deadByError
}

function surveys(statements: OperationStatements, act: OperationAct, { group }: ColumnFilter) {
  const { surveyLiving, surveyDead, surveyGroup } = statements
  if (isOnLiving(act)) return surveyLiving
  return group === undefined ? surveyDead : surveyGroup
}

function memberOf({ id, kind, category, key, changed_at, ordered, paused, standing }: MemberRow): OperationMember {
  const facts = { isOrdered: ordered === 1, isPaused: paused === 1, standing: standing ?? undefined }
  return { id, kind, category, key, changedAt: changed_at, ...facts }
}

function scopeOf({ kind, category, key, errorCode, group }: ColumnFilter, until: number) {
  return {
    kind: kind ?? null,
    category: category ?? null,
    key: key ?? null,
    error_code: errorCode ?? null,
    failure_group: group ?? null,
    until,
  }
}
