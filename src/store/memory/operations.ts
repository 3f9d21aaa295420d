import type { Before, By } from '../contract/ledger.js'
import type {
  DeathsRow,
  LivingStanding,
  OperationAct,
  OperationMember,
  OperationTally,
  SurveyRow,
} from '../contract/operation-store.js'
import type { TaskRecord } from '../contract/task.js'
import type {
  DeadPayload,
  LivingPage,
  MemberScope,
  NamedMember,
  OperationPort,
  PayloadEdit,
  UndonePage,
} from '../port/operation-port.js'
import { afterUndo } from '../rules/after-settlement.js'
import { compareTexts, type TaskPlace } from '../rules/cursor.js'
import { addTally } from '../rules/operations/member-tally.js'
import { NO_TALLY } from '../rules/operations/operation-rules.js'
import { ageOf, undonePage } from '../rules/operations/set.js'
import { isActedOn, isAsMoved, isOnLiving } from '../rules/operator-acts.js'
import { twinOf } from '../rules/unique-keys.js'
import { isMeant } from './list.js'
import { keepOriginal, type MemoryTask, standingOf } from './task.js'
import type { MemoryTasks } from './tasks.js'

/** The operations of a memory store: their primitives, and what follows from the life of their members. */
export class MemoryOperations implements OperationPort {
  readonly #tallies = new Map<string, OperationTally>()
  readonly #tasks: MemoryTasks

  constructor(tasks: MemoryTasks) {
    this.#tasks = tasks
  }

  tally(id: string): { tally: OperationTally; now: number } {
    return { tally: this.#tallies.get(id) ?? NO_TALLY, now: this.#tasks.now() }
  }

  tallies(ids: readonly string[]): ReadonlyMap<string, OperationTally> {
    return new Map(ids.map(id => [id, this.tally(id).tally]))
  }

  dropTallies(ids: readonly string[]): void {
    for (const id of ids) this.#tallies.delete(id)
  }

  deadPayloads(ids: readonly string[]): DeadPayload[] {
    return this.#named(ids).flatMap(({ record: { id, status, payload }, lane }) =>
      status === 'dead' && !lane.hasItems ? { id, payload } : [],
    )
  }

  replacePayloads(edits: readonly PayloadEdit[]): void {
    for (const { id, before, after } of edits) for (const task of this.#named([id])) keepOriginal(task, before, after)
  }

  namedMembers(act: OperationAct, ids: readonly string[], until: number): NamedMember[] {
    return this.#named(ids).flatMap(task => {
      const isIn = isActedOn(act, living(task)) && (isOnLiving(act) || task.record.changedAt <= until)
      return isIn ? { ...memberOf(task, this.#tasks.now()), errorCode: task.record.errorCode } : []
    })
  }

  members(act: OperationAct, scope: MemberScope, after: TaskPlace, limit: number): OperationMember[] {
    return this.#inSet(act, scope)
      .map(task => memberOf(task, this.#tasks.now()))
      .sort((a, b) => a.changedAt - b.changedAt || compareTexts(a.id, b.id))
      .filter(({ id, changedAt }) => {
        return changedAt > after.changedAt || (changedAt === after.changedAt && compareTexts(id, after.id) > 0)
      })
      .slice(0, limit)
  }

  living(scope: MemberScope, after: string, upTo: number): LivingPage {
    const found = this.#inSet('cancel', scope)
      .map(task => memberOf(task, this.#tasks.now()))
      .filter(({ id }) => compareTexts(id, after) > 0)
      .sort((a, b) => compareTexts(a.id, b.id))
    const members = found.slice(0, upTo)
    const next = members.at(-1)?.id
    return found.length > upTo && next !== undefined ? { members, next } : { members }
  }

  survey(act: OperationAct, scope: MemberScope): SurveyRow[] {
    const now = this.#tasks.now()
    return this.#inSet(act, scope).map(task => {
      const { kind, category, isOrdered, isPaused, standing } = memberOf(task, now)
      const { errorCode, changedAt, status, unique } = task.record
      const isLost = status === 'dead' && unique?.while === 'unfinished'
      const hasTwin = isLost && twinOf(this.#tasks.unique, { kind, key: unique.key }, now) !== undefined
      const age = ageOf(changedAt, now)
      return { kind, category, errorCode, isOrdered, isPaused, standing, hasTwin, age, count: 1 }
    })
  }

  deaths(id: string): DeathsRow[] {
    return deathsOf(this.#tasks, id)
  }

  restore(id: string, after: string, limit: number, by: By, now: number): UndonePage {
    const moved = [...this.#tasks.tasks.values()]
      .filter(({ record }) => record.operation === id && record.id > after)
      .sort((a, b) => (a.record.id < b.record.id ? -1 : 1))
    const ids = moved.map(({ record }) => ({ id: record.id }))
    const count = moved.slice(0, limit).filter(task => restore(this.#tasks, task, by, now)).length
    return undonePage(ids, limit, count)
  }

  /** Adds to the tally of an operation. */
  add(id: string, tally: OperationTally): void {
    this.#tallies.set(id, addTally(this.tally(id).tally, tally))
  }

  /** The tasks that a set has now. */
  #inSet(act: OperationAct, { filter, until }: MemberScope): MemoryTask[] {
    return [...this.#tasks.tasks.values()].filter(task => {
      const since = isOnLiving(act) ? task.record.submittedAt : task.record.changedAt
      return isActedOn(act, living(task)) && since <= until && isMeant(filter, task.record)
    })
  }

  #named(ids: readonly string[]): MemoryTask[] {
    return ids.flatMap(id => this.#tasks.task(id) ?? [])
  }
}

function living({ record: { status }, isToBeCancelled }: MemoryTask) {
  return { status, isToBeCancelled }
}

function memberOf({ record, lane: { isOrdered, isPaused } }: MemoryTask, now: number): OperationMember {
  const { id, kind, category, key, changedAt } = record
  return { id, kind, category, key, changedAt, isOrdered, isPaused, standing: standingIn(record, now) }
}

function standingIn({ status, nextAttemptAt = 0 }: TaskRecord, now: number): LivingStanding | undefined {
  if (status === 'running') return 'running'
  if (status !== 'waiting') return undefined
  return nextAttemptAt <= now ? 'due' : 'not_due'
}

function deathsOf(tasks: MemoryTasks, id: string): DeathsRow[] {
  const rows = new Map<string, DeathsRow>()
  for (const { record } of tasks.tasks.values()) {
    const { operation, status, kind, errorCode, group } = record
    if (operation !== id || status !== 'dead') continue
    const name = JSON.stringify([kind, errorCode, group])
    rows.set(name, { kind, errorCode, group, count: 1 + (rows.get(name)?.count ?? 0) })
  }
  return [...rows.values()]
}

/** Puts a task back as it was, if it has not run since. */
function restore(tasks: MemoryTasks, task: MemoryTask, by: By, now: number): boolean {
  const { record, ledger } = task
  const last = ledger.at(-1)
  if (last?.before === undefined || task.lane.hasItems || !isAsMoved(record, last)) return false
  const before: Before = last.before
  tasks.restore(task, afterUndo(standingOf(task), before, by, now), before, now)
  return true
}
