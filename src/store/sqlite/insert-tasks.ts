import type { Enqueued, NewTask } from '../contract/task.js'
import { State, statusOf } from '../rules/task-state.js'
import { triedForMs } from '../rules/tried-for.js'
import { created, stands } from '../rules/unique.js'
import type { LaneBook } from './lane-book.js'
import type { Statements } from './statements.js'

/** From this number on, one statement for all costs less than one for each. */
export const MIN_ALIKE = 4
const MAX_ALIKE = 1000

/** A longer payload costs more as a part of JSON than a statement of its own does. */
const MAX_PAYLOAD = 2000

/** Tasks that follow each other and differ in nothing but their ids and payloads. */
export interface AlikeTasks {
  readonly first: NewTask
  readonly tasks: NewTask[]
}

/** Divides tasks, in their order, so that each part is alike. */
export function alikeTasks(tasks: readonly NewTask[]): readonly AlikeTasks[] {
  const parts: AlikeTasks[] = []
  let last: AlikeTasks | undefined
  for (const task of tasks) {
    if (last === undefined || last.tasks.length === MAX_ALIKE || !areAlike(last.first, task)) {
      last = { first: task, tasks: [] }
      parts.push(last)
    }
    last.tasks.push(task)
  }
  return parts
}

function areAlike(first: NewTask, task: NewTask): boolean {
  return (
    task.kind === first.kind &&
    task.category === first.category &&
    task.key === first.key &&
    task.quota === first.quota &&
    task.priority === first.priority &&
    task.submittedAt === first.submittedAt &&
    task.runAt === first.runAt &&
    task.traceparent === first.traceparent &&
    isPlain(first) &&
    isPlain(task)
  )
}

function isPlain({ cost, unique, policy, tried, payload }: NewTask): boolean {
  const isBare = cost === undefined && unique === undefined && policy === undefined && tried === undefined
  return isBare && payload.length <= MAX_PAYLOAD
}

/** Adds tasks that are alike to their lane, which must not be ordered. */
export function insertAlike(
  statements: Statements,
  book: LaneBook,
  lane: number,
  { first, tasks }: AlikeTasks,
  now: number,
  makeId: (now: number) => string,
): readonly Enqueued[] {
  const results = tasks.map(({ id }) => created(id ?? makeId(now)))
  const payloads = tasks.map(({ payload }, n) => `${JSON.stringify(results[n]?.id)}:${JSON.stringify(payload)}`)
  const values = columnsOf(lane, first, 0, now)
  const { changes, lastInsertRowid } = statements.insertAlike.run(...values, `{${payloads.join(',')}}`)
  book.move(lane, undefined, 'waiting', changes)
  if (changes === tasks.length) return results
  // The tasks that it added have the last sequence numbers.
  const added = new Set(changes === 0 ? [] : statements.idsAfter.all(Number(lastInsertRowid) - changes))
  return results.map(result => (added.delete(result.id) ? result : taken(statements, result.id)))
}

/** The answer for a task whose id is taken. */
export function taken(statements: Statements, id: string): Enqueued {
  const there = statements.there.get(id)
  return stands(id, 'kept', there && { status: statusOf(there.state), since: there.changed_at })
}

/** Adds a task to its lane. Returns its sequence number; `undefined` if its id is taken. */
export function insertOne(
  statements: Statements,
  book: LaneBook,
  lane: number,
  id: string,
  task: NewTask,
  now: number,
): number | undefined {
  const { payload, priority = 0, cost, policy = null } = task
  const place = book.isOrdered(lane) ? (statements.lastPlace.get({ lane, priority }) ?? 0) + 1 : 0
  const costs = cost === undefined ? null : JSON.stringify(cost)
  const columns = [...columnsOf(lane, task, place, now), id, payload, costs, policy]
  const added =
    task.unique === undefined
      ? statements.insertTask.run(...columns)
      : statements.insertUnique.run(...columns, task.unique.key, task.unique.while)
  return added.changes > 0 ? Number(added.lastInsertRowid) : undefined
}

/** The columns from `lane` to `traceparent`. The task goes behind `place`, unless it says when it was submitted. */
function columnsOf(lane: number, task: NewTask, place: number, now: number) {
  const { priority = 0, traceparent = null } = task
  const runAt = Math.ceil(task.runAt ?? now)
  const state = runAt > now ? State.scheduled : State.ready
  const submitted = Math.floor(task.submittedAt ?? Math.max(now, place))
  const began = Math.max(now, runAt) - triedForMs(task)
  return [lane, state, priority, submitted, began, now, runAt, traceparent] as const
}
