import { afterUndo } from '../after-settlement.js'
import { checkBeat, checkName, checkPage } from '../check.js'
import { compareTexts, taskPlace } from '../cursor.js'
import type { Lane } from '../lane.js'
import type { Before, By } from '../ledger.js'
import type { Page, PageRequest } from '../list.js'
import type {
  DeathsRow,
  NewOperation,
  OperationAct,
  OperationMember,
  OperationRecord,
  OperationStep,
  OperationStore,
  OperationTally,
  SurveyRow,
  TakenOperation,
  TaskSet,
} from '../operation-store.js'
import { checkNewOperation, checkPerson, checkSet } from '../operations/check-operation.js'
import { OperationNotFoundError } from '../operations/errors.js'
import { addTally } from '../operations/member-tally.js'
import {
  isDrivenBy,
  isOpen,
  isOutside,
  NO_TALLY,
  type OperationState,
  operationRecord,
  refuseUndo,
  released,
} from '../operations/operation-rules.js'
import { ageOf, isSameLane, memberPage, namedPage, operationPage, surveyed, undonePage } from '../operations/set.js'
import { changing, creation, leasing, stepping, type Transition, undoing } from '../operations/transitions.js'
import { isMeant } from './list.js'
import type { MemoryTask } from './task.js'

/** The part of the memory store that its operations work with. */
export interface MemoryMembers {
  readonly tasks: ReadonlyMap<string, MemoryTask>
  /** Does the act of an operation to these tasks, as far as they are in its set. Returns the ids that it moved. */
  act(operation: OperationState, ids: readonly string[], now: number): string[]
  /** Puts a task back as it was. */
  restore(task: MemoryTask, after: ReturnType<typeof afterUndo>, before: Before, now: number): void
  /** Appends an audit record. */
  record(record: string): void
}

interface Kept {
  state: OperationState
  tally: OperationTally
}

/** The operations of the memory store. Each verb runs in one go, so it is a transaction by itself. */
export class MemoryOperations implements OperationStore {
  readonly #operations = new Map<string, Kept>()
  readonly #members: MemoryMembers
  readonly #now: () => number

  constructor(members: MemoryMembers, now: () => number) {
    this.#members = members
    this.#now = now
  }

  async create(operation: NewOperation): Promise<OperationRecord> {
    checkNewOperation(operation)
    const transition = creation(operation, this.#now())
    const kept = { state: transition.state, tally: NO_TALLY }
    this.#operations.set(kept.state.id, kept)
    return this.#save(kept, transition)
  }

  async get(id: string): Promise<OperationRecord | undefined> {
    checkName('id', id)
    const found = this.#operations.get(id)
    return found && operationRecord(found.state, found.tally)
  }

  async list(filter: { readonly isOpen?: boolean }, page: PageRequest): Promise<Page<OperationRecord>> {
    checkPage(page)
    const from = page.after === undefined ? undefined : taskPlace(page.after)
    const found = [...this.#operations.values()]
      .filter(({ state }) => filter.isOpen !== true || isOpen(state))
      .map(({ state, tally }) => operationRecord(state, tally))
      .sort((a, b) => b.createdAt - a.createdAt || (a.id < b.id ? 1 : -1))
      .filter(({ createdAt, id }) => {
        return from === undefined || createdAt < from.changedAt || (createdAt === from.changedAt && id < from.id)
      })
    return operationPage(found, page.limit)
  }

  async take(id: string, driver: string, leaseMs: number): Promise<TakenOperation | undefined> {
    checkBeat({ worker: driver, leaseMs })
    const found = this.#find(id)
    const lease = leasing(found.state, driver, leaseMs, this.#now())
    return lease && { operation: this.#save(found, lease), token: lease.token }
  }

  async step(
    id: string,
    token: string,
    step: OperationStep,
  ): Promise<{ readonly operation: OperationRecord; readonly moved: readonly string[] } | undefined> {
    const found = this.#find(id)
    if (!isDrivenBy(found.state, token)) return undefined
    const now = this.#now()
    const moved = this.#members.act(found.state, step.move ?? [], now)
    const operation = this.#save(found, stepping(found.state, step, moved.length, found.tally, now))
    return { operation, moved }
  }

  async release(id: string, token: string): Promise<void> {
    const found = this.#find(id)
    found.state = released(found.state, token)
  }

  async change(id: string, change: 'stop' | 'continue', by: By): Promise<OperationRecord> {
    checkPerson(by)
    const found = this.#find(id)
    return this.#save(found, changing(found.state, change, found.tally, by, this.#now()))
  }

  async members(
    id: string,
    { limit, after, lane }: PageRequest & { readonly lane?: Lane },
  ): Promise<Page<OperationMember>> {
    checkPage({ limit })
    const { act, set, createdAt } = this.#find(id).state
    if (isOutside(set)) return { items: [] }
    const found = this.#inSet(act, set, createdAt)
    if ('ids' in set) {
      const page = namedPage(set.ids, { limit, after, lane })
      const ids = new Set(page.ids)
      return page.of(found.filter(member => ids.has(member.id)))
    }
    const ofLane = found.filter(member => lane === undefined || isSameLane(member, lane))
    return memberPage(act, ofLane, { limit, after })
  }

  async survey(act: OperationAct, set: TaskSet): Promise<readonly SurveyRow[]> {
    checkSet(act, set)
    const now = this.#now()
    return surveyed(
      this.#inSet(act, set).map(({ kind, category, id, isPaused, changedAt }) => {
        const errorCode = this.#members.tasks.get(id)?.record.errorCode
        return { kind, category, errorCode, isPaused, age: ageOf(changedAt, now), count: 1 }
      }),
    )
  }

  async deaths(id: string): Promise<readonly DeathsRow[]> {
    this.#find(id)
    const rows = new Map<string, DeathsRow>()
    for (const { record } of this.#members.tasks.values()) {
      const { operation, status, kind, errorCode, group } = record
      if (operation !== id || status !== 'dead') continue
      const name = JSON.stringify([kind, errorCode, group])
      rows.set(name, { kind, errorCode, group, count: 1 + (rows.get(name)?.count ?? 0) })
    }
    return [...rows.values()]
  }

  async undo(
    id: string,
    { limit, after = '' }: PageRequest,
    by: By,
  ): Promise<{ readonly undone: number; readonly next?: string }> {
    checkPage({ limit })
    checkPerson(by)
    const found = this.#find(id)
    refuseUndo(found.state)
    const now = this.#now()
    const moved = [...this.#members.tasks.values()]
      .filter(({ record }) => record.operation === id && record.id > after)
      .sort((a, b) => (a.record.id < b.record.id ? -1 : 1))
    const ids = moved.map(({ record }) => ({ id: record.id }))
    const count = moved.slice(0, limit).filter(task => this.#restore(task, by, now)).length
    this.#save(found, undoing(found.state, count, by, now))
    return undonePage(ids, limit, count)
  }

  /** Adds to the tally of an operation. */
  add(id: string, tally: OperationTally): void {
    const found = this.#operations.get(id)
    if (found !== undefined) found.tally = addTally(found.tally, tally)
  }

  /** The number of operations that are over and have not changed since a time. */
  prunable(before: number): number {
    return this.#over(before).length
  }

  /** Forgets operations that are over and have not changed since a time, up to a limit. Returns how many. */
  prune(before: number, limit: number): number {
    const gone = this.#over(before)
      .sort((a, b) => a.state.createdAt - b.state.createdAt)
      .slice(0, limit)
    for (const { state } of gone) this.#operations.delete(state.id)
    return gone.length
  }

  #over(before: number) {
    return [...this.#operations.values()].filter(({ state }) => state.changedAt <= before && !isOpen(state))
  }

  #restore(task: MemoryTask, by: By, now: number): boolean {
    const { record, ledger } = task
    const last = ledger.at(-1)
    const isAsMoved =
      (record.status === 'waiting' && last?.outcome === 'redriven') ||
      (record.status === 'cancelled' && last?.outcome === 'discarded')
    // A task that was claimed and handed back since has run, and its state is younger than its row.
    if (!isAsMoved || task.lane.isOfRun || last.before === undefined || last.endedAt !== record.changedAt) return false
    const standing = { ...record, isUndecided: false, isToBeCancelled: false }
    const after = afterUndo(standing, last.before, by, now)
    this.#members.restore(task, after, last.before, now)
    return true
  }

  #save(found: Kept, { state, entry }: Transition): OperationRecord {
    found.state = state
    if (entry !== undefined) this.#members.record(entry)
    return operationRecord(state, found.tally)
  }

  #find(id: string): Kept {
    checkName('id', id)
    const found = this.#operations.get(id)
    if (found === undefined) throw new OperationNotFoundError(id)
    return found
  }

  /** The members that a set has now, the oldest first. */
  #inSet(act: OperationAct, set: TaskSet, createdAt = this.#now()): OperationMember[] {
    const named = 'ids' in set ? new Map(set.ids.map((id, index) => [id, index])) : undefined
    const found = [...this.#members.tasks.values()].filter(({ record, isToBeCancelled }) => {
      const isInState =
        act === 'cancel'
          ? record.status === 'waiting' || (record.status === 'running' && !isToBeCancelled)
          : record.status === 'dead'
      if (!isInState) return false
      if ('ids' in set) return named?.has(record.id) && (act === 'cancel' || record.changedAt <= createdAt)
      const since = act === 'cancel' ? record.submittedAt : record.changedAt
      return since <= set.until && isMeant(set.filter, record)
    })
    const members = found.map(({ record: { id, kind, category, key, changedAt }, lane }) => {
      return { id, kind, category, key, changedAt, isOrdered: lane.isOrdered, isPaused: lane.isPaused }
    })
    if (named !== undefined) return members.sort((a, b) => (named.get(a.id) ?? 0) - (named.get(b.id) ?? 0))
    return members.sort((a, b) => a.changedAt - b.changedAt || compareTexts(a.id, b.id))
  }
}
