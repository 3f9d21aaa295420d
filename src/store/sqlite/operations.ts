import { afterUndo } from '../after-settlement.js'
import { checkBeat, checkName, checkPage } from '../check.js'
import { compareTexts, taskPlace } from '../cursor.js'
import type { Lane } from '../lane.js'
import type { Before, By } from '../ledger.js'
import type { Page, PageRequest, TaskFilter } from '../list.js'
import {
  AGES,
  type DeathsRow,
  type NewOperation,
  type OperationAct,
  type OperationMember,
  type OperationRecord,
  type OperationStep,
  type OperationStore,
  type OperationTally,
  type SurveyRow,
  type TakenOperation,
  type TaskSet,
} from '../operation-store.js'
import { checkNewOperation, checkPerson, checkSet } from '../operations/check-operation.js'
import { OperationNotFoundError } from '../operations/errors.js'
import {
  isDrivenBy,
  isOpen,
  isOutside,
  NO_TALLY,
  type OperationState,
  operationRecord,
  operationState,
  partOf,
  refuseUndo,
  released,
} from '../operations/operation-rules.js'
import { ageOf, memberPage, namedPage, operationPage, surveyed, undonePage } from '../operations/set.js'
import { changing, creation, leasing, stepping, type Transition, undoing } from '../operations/transitions.js'
import { FIRST_RUN_LANE } from '../runs/items.js'
import { State, statusOf } from '../task-state.js'
import type { Connection } from './driver.js'
import type { GroupCommit } from './group-commit.js'
import { LaneBook } from './lane-book.js'
import { discard, redrivePatched } from './operators.js'
import type { SqliteRuns } from './runs.js'
import { change, standingOf } from './settle.js'
import { type MemberRow, type OperationStatements, operationStatementsOf } from './statements/operations.js'
import { type Statements, statementsOf } from './statements.js'

/** The parts of a store that its operations work with. */
export interface SqliteOperationParts {
  readonly db: Connection
  readonly commits: GroupCommit
  readonly runs: SqliteRuns
  readonly now: () => number
  /** Tells watchers of tasks that were moved. */
  readonly onMoved: (ids: readonly string[]) => void
}

const NEWEST = { changedAt: Number.MAX_SAFE_INTEGER, id: '' }

/** The operations of a SQLite store. There is one writer at a time, so a record that was loaded is current. */
export class SqliteOperations implements OperationStore {
  readonly #parts: SqliteOperationParts
  readonly #statements: OperationStatements
  readonly #tasks: Statements

  constructor(parts: SqliteOperationParts) {
    this.#parts = parts
    this.#statements = operationStatementsOf(parts.db)
    this.#tasks = statementsOf(parts.db)
  }

  async create(operation: NewOperation): Promise<OperationRecord> {
    checkNewOperation(operation)
    return this.#write(now => {
      const transition = creation(operation, now)
      this.#statements.insert.run(rowOf(transition.state))
      return this.#save(transition, now)
    })
  }

  async get(id: string): Promise<OperationRecord | undefined> {
    checkName('id', id)
    return this.#parts.commits.read(() => {
      const row = this.#statements.get.get(id)
      return row && this.#toRecord(operationState(row.state))
    })
  }

  async list(filter: { readonly isOpen?: boolean }, { limit, after }: PageRequest): Promise<Page<OperationRecord>> {
    checkPage({ limit })
    const { changedAt, id } = after === undefined ? NEWEST : taskPlace(after)
    return this.#parts.commits.read(() => {
      const rows = this.#statements.list.all(filter.isOpen === true ? 1 : 0, changedAt, changedAt, id, limit + 1)
      return operationPage(
        rows.map(({ state }) => this.#toRecord(operationState(state))),
        limit,
      )
    })
  }

  async take(id: string, driver: string, leaseMs: number): Promise<TakenOperation | undefined> {
    checkBeat({ worker: driver, leaseMs })
    return this.#write(now => {
      const lease = leasing(this.#load(id), driver, leaseMs, now)
      return lease && { operation: this.#save(lease, now), token: lease.token }
    })
  }

  async step(
    id: string,
    token: string,
    step: OperationStep,
  ): Promise<{ readonly operation: OperationRecord; readonly moved: readonly string[] } | undefined> {
    const result = await this.#write(now => {
      const before = this.#load(id)
      if (!isDrivenBy(before, token)) return undefined
      const moved = this.#act(before, step.move ?? [], now)
      return { operation: this.#save(stepping(before, step, moved.length, this.#tally(id), now), now), moved }
    })
    if (result !== undefined && result.moved.length > 0) this.#parts.onMoved(result.moved)
    return result
  }

  async release(id: string, token: string): Promise<void> {
    await this.#write(now => this.#save({ state: released(this.#load(id), token) }, now))
  }

  async change(id: string, change: 'stop' | 'continue', by: By): Promise<OperationRecord> {
    checkPerson(by)
    return this.#write(now => this.#save(changing(this.#load(id), change, this.#tally(id), by, now), now))
  }

  async members(
    id: string,
    { limit, after, lane }: PageRequest & { readonly lane?: Lane },
  ): Promise<Page<OperationMember>> {
    checkPage({ limit })
    return this.#parts.commits.read(() => {
      const { act, set, createdAt } = this.#load(id)
      if (isOutside(set)) return { items: [] }
      if ('ids' in set) {
        const page = namedPage(set.ids, { limit, after, lane })
        return page.of(this.#namedRows(act, page.ids, createdAt).map(memberOf))
      }
      const filter = { ...set.filter, ...lane }
      const { changedAt: at, id: from } = after === undefined || act === 'cancel' ? OLDEST : taskPlace(after)
      const scope = { ...scopeOf(filter, set.until), at, id: from, limit: limit + 1 }
      const rows = this.#memberReads(act, filter).flatMap(statement => statement.all(scope).map(memberOf))
      rows.sort((a, b) => a.changedAt - b.changedAt || compareTexts(a.id, b.id))
      return memberPage(act, rows, { limit, after })
    })
  }

  async survey(act: OperationAct, set: TaskSet): Promise<readonly SurveyRow[]> {
    checkSet(act, set)
    return this.#parts.commits.read(() => {
      const now = this.#parts.now()
      if ('ids' in set) {
        const rows = this.#namedRows(act, set.ids, now).map(({ kind, category, error_code, paused, changed_at }) => {
          const errorCode = error_code ?? undefined
          return { kind, category, errorCode, isPaused: paused === 1, age: ageOf(changed_at, now), count: 1 }
        })
        return surveyed(rows)
      }
      const rows = this.#surveys(act, set.filter).flatMap(statement =>
        statement.all({ ...scopeOf(set.filter, set.until), now }),
      )
      return surveyed(
        rows.map(({ kind, category, error_code, paused, age, count }) => {
          const errorCode = error_code ?? undefined
          return { kind, category, errorCode, isPaused: paused === 1, age: AGES[age] ?? 'older', count }
        }),
      )
    })
  }

  async deaths(id: string): Promise<readonly DeathsRow[]> {
    return this.#parts.commits.read(() => {
      this.#load(id)
      return this.#statements.deaths.all(id).map(({ kind, error_code, failure_group, count }) => {
        return { kind, errorCode: error_code ?? undefined, group: failure_group ?? undefined, count }
      })
    })
  }

  async undo(
    id: string,
    { limit, after = '' }: PageRequest,
    by: By,
  ): Promise<{ readonly undone: number; readonly next?: string }> {
    checkPage({ limit })
    checkPerson(by)
    return this.#write(now => {
      const state = this.#load(id)
      refuseUndo(state)
      const rows = this.#statements.moved.all(id, after, limit + 1)
      const book = new LaneBook(this.#tasks)
      const count = rows.slice(0, limit).filter(row => this.#restore(book, row, by, now)).length
      book.write()
      this.#save(undoing(state, count, by, now), now)
      return undonePage(rows, limit, count)
    })
  }

  /** Puts a member back as it was, if it has not run since. */
  #restore(
    book: LaneBook,
    { seq, lane, state }: { readonly seq: number; readonly lane: number; readonly state: number },
    by: By,
    now: number,
  ): boolean {
    const row = this.#statements.standing.get(seq)
    if (row === undefined || lane >= FIRST_RUN_LANE) return false
    const last = this.#statements.act.get(seq, row.entries)
    const isAsMoved =
      (state < State.running && last?.outcome === 'redriven') ||
      (state === State.cancelled && last?.outcome === 'discarded')
    // A task that was claimed and handed back since has run, and its state is younger than its row.
    if (!isAsMoved || last.before === null || last.ended_at !== row.changed_at) return false
    const before = JSON.parse(last.before) as Before
    change(this.#tasks, book, row, statusOf(state), afterUndo(standingOf(row), before, by, now), now)
    this.#statements.restore.run(before.changedAt ?? now, before.payload ?? null, seq)
    return true
  }

  #act(operation: OperationState, ids: readonly string[], now: number): string[] {
    const { act, by } = operation
    const { patch, ...part } = partOf(operation)
    switch (act) {
      case 'redrive':
        return patch === undefined
          ? this.#parts.runs.redrive(ids, by, now, part)
          : redrivePatched(this.#tasks, ids, by, now, { ...part, patch })
      case 'discard':
        return discard(this.#tasks, ids, { why: '', ...by }, now, part)
      case 'cancel':
        return this.#parts.runs.cancelTasks(ids, by, now)
      case 'reset':
      case 'requeue':
        return []
    }
  }

  #memberReads(act: OperationAct, { errorCode, group }: TaskFilter) {
    const { living, dead, deadByError, deadInGroup } = this.#statements
    if (act === 'cancel') return living
    if (group !== undefined) return deadInGroup
    return errorCode === undefined ? dead : deadByError
  }

  #surveys(act: OperationAct, { group }: TaskFilter) {
    const { surveyLiving, surveyDead, surveyGroup } = this.#statements
    if (act === 'cancel') return surveyLiving
    return group === undefined ? surveyDead : surveyGroup
  }

  #namedRows(act: OperationAct, ids: readonly string[], until: number) {
    return ids.flatMap(id => {
      const row = this.#statements.named.get(id)
      if (row === undefined) return []
      const isLiving = row.state <= State.running && row.cancel_requested === 0
      return (act === 'cancel' ? isLiving : row.state === State.dead && row.changed_at <= until) ? [row] : []
    })
  }

  #load(id: string): OperationState {
    checkName('id', id)
    const row = this.#statements.get.get(id)
    if (row === undefined) throw new OperationNotFoundError(id)
    return operationState(row.state)
  }

  #tally(id: string): OperationTally {
    return this.#statements.tally.get(id) ?? NO_TALLY
  }

  #toRecord(state: OperationState): OperationRecord {
    return operationRecord(state, this.#tally(state.id))
  }

  #save({ state, entry }: Transition, now: number): OperationRecord {
    this.#statements.save.run(rowOf(state))
    if (entry !== undefined) this.#tasks.appendAudit.run(now, entry)
    return this.#toRecord(state)
  }

  #write<T>(work: (now: number) => T): Promise<T> {
    return this.#parts.commits.write(() => work(this.#parts.now()))
  }
}

const OLDEST = { changedAt: 0, id: '' }

function rowOf(state: OperationState) {
  const { id, createdAt: created_at } = state
  return { id, created_at, open: isOpen(state) ? 1 : 0, state: JSON.stringify(state) }
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
