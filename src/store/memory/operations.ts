import type { Before, By } from '../contract/ledger.js'
import type { DeathsRow, OperationAct, OperationMember, OperationTally, TaskSet } from '../contract/operation-store.js'
import type { OperationPort } from '../port/operation-port.js'
import type { RunPort } from '../port/run-port.js'
import { afterUndo } from '../rules/after-settlement.js'
import { compareTexts } from '../rules/cursor.js'
import { addTally } from '../rules/operations/member-tally.js'
import { isOpen, NO_TALLY, type OperationState } from '../rules/operations/operation-rules.js'
import { ageOf, undonePage } from '../rules/operations/set.js'
import { isMeant } from './list.js'
import { keepOriginal, type MemoryTask, standingOf } from './task.js'
import type { MemoryTasks } from './tasks.js'

interface Kept {
  state: OperationState
  tally: OperationTally
}

/** The operations of a memory store, as it keeps them. */
export class MemoryOperations {
  readonly #operations = new Map<string, Kept>()

  /** The primitives that operations are made of. */
  port(runs: RunPort, tasks: MemoryTasks): OperationPort {
    const all = this.#operations
    return {
      ...runs,
      operation: id => all.get(id),
      lockOperation: id => {
        const found = all.get(id)
        return found && { ...found, now: tasks.now() }
      },
      operations: (isOpenOnly, before, limit) =>
        [...all.values()]
          .filter(({ state }) => (!isOpenOnly || isOpen(state)) && isNewer(before, state))
          .sort((a, b) => (isNewer({ ...a.state, changedAt: a.state.createdAt }, b.state) ? -1 : 1))
          .slice(0, limit),
      saveOperation: state => void all.set(state.id, { state, tally: all.get(state.id)?.tally ?? NO_TALLY }),
      deadPayloads: ids =>
        tasksOf(tasks, ids).flatMap(({ record: { id, status, payload }, lane }) =>
          status === 'dead' && !lane.hasItems ? { id, payload } : [],
        ),
      replacePayloads: edits => {
        for (const { id, before, after } of edits)
          for (const task of tasksOf(tasks, [id])) keepOriginal(task, before, after)
      },
      namedMembers: (act, ids, until) =>
        tasksOf(tasks, ids).flatMap(task => {
          const isIn = isActedOn(act, task) && (act === 'cancel' || task.record.changedAt <= until)
          return isIn ? { ...memberOf(task), errorCode: task.record.errorCode } : []
        }),
      members: (act, scope, after, limit) =>
        inSet(tasks, act, scope)
          .map(memberOf)
          .sort((a, b) => a.changedAt - b.changedAt || compareTexts(a.id, b.id))
          .filter(({ id, changedAt }) => {
            return changedAt > after.changedAt || (changedAt === after.changedAt && compareTexts(id, after.id) > 0)
          })
          .slice(0, limit),
      survey: (act, scope) =>
        inSet(tasks, act, scope).map(({ record: { kind, category, errorCode, changedAt }, lane: { isPaused } }) => {
          return { kind, category, errorCode, isPaused, age: ageOf(changedAt, tasks.now()), count: 1 }
        }),
      deaths: id => deathsOf(tasks, id),
      restore: (id, after, limit, by, now) => {
        const moved = [...tasks.tasks.values()]
          .filter(({ record }) => record.operation === id && record.id > after)
          .sort((a, b) => (a.record.id < b.record.id ? -1 : 1))
        const ids = moved.map(({ record }) => ({ id: record.id }))
        const count = moved.slice(0, limit).filter(task => restore(tasks, task, by, now)).length
        return undonePage(ids, limit, count)
      },
    }
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
}

function isNewer(
  a: { readonly changedAt: number; readonly id: string },
  { createdAt, id }: { readonly createdAt: number; readonly id: string },
): boolean {
  return createdAt < a.changedAt || (createdAt === a.changedAt && id < a.id)
}

function tasksOf(tasks: MemoryTasks, ids: readonly string[]): MemoryTask[] {
  return ids.flatMap(id => tasks.task(id) ?? [])
}

function isActedOn(act: OperationAct, { record, isToBeCancelled }: MemoryTask): boolean {
  if (act !== 'cancel') return record.status === 'dead'
  return record.status === 'waiting' || (record.status === 'running' && !isToBeCancelled)
}

/** The tasks that a set has now. */
function inSet(tasks: MemoryTasks, act: OperationAct, { filter, until }: Extract<TaskSet, { until: number }>) {
  return [...tasks.tasks.values()].filter(task => {
    const since = act === 'cancel' ? task.record.submittedAt : task.record.changedAt
    return isActedOn(act, task) && since <= until && isMeant(filter, task.record)
  })
}

function memberOf({ record: { id, kind, category, key, changedAt }, lane }: MemoryTask): OperationMember {
  return { id, kind, category, key, changedAt, isOrdered: lane.isOrdered, isPaused: lane.isPaused }
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
  const isAsMoved =
    (record.status === 'waiting' && last?.outcome === 'redriven') ||
    (record.status === 'cancelled' && last?.outcome === 'discarded')
  // A task that was claimed and handed back since has run, and its state is younger than its row.
  if (!isAsMoved || task.lane.hasItems || last.before === undefined || last.endedAt !== record.changedAt) return false
  const before: Before = last.before
  tasks.restore(task, afterUndo(standingOf(task), before, by, now), before, now)
  return true
}
