import { setImmediate as nextTurn } from 'node:timers/promises'
import type { CountField, Page, PageRequest, TaskCount, TaskFilter } from '../contract/list.js'
import type { OperationAct, OperationMember, SurveyRow } from '../contract/operation-store.js'
import type { TaskRecord } from '../contract/task.js'
import type { MemberScope } from '../port/operation-port.js'
import type { ColumnFilter } from '../port/read-port.js'
import type { Steps, Transactions, Tx } from '../port/steps.js'
import { addUp } from '../rules/count-by.js'
import { cursorAt, OLDEST, pageByTime, type TaskPlace, taskPlace } from '../rules/cursor.js'
import { objectText } from '../rules/json-object.js'
import { ageOf, surveyed } from '../rules/operations/set.js'
import { isOnLiving } from '../rules/operator-acts.js'

/**
 * Searches for tasks by their payloads, which have no index. A store finds tasks by their columns, in its order, and then
 * looks into their payloads. One search looks at a bounded number of tasks, and says where the next one begins, so no
 * statement is long however many tasks there are and however few match.
 */

/** The most tasks that one search looks at. */
const MAX_SEARCHED = 10_000

/** Tasks whose payloads are read together. A search may end after any of them. */
const CHUNK = 500

/** The filter by columns, and the part of the payload as JSON text; `undefined` if payloads do not matter. */
export function partsOf<F extends Omit<TaskFilter, 'status'>>({ where, ...columns }: F) {
  return { columns, part: where === undefined ? undefined : objectText(where) }
}

/** What a search has found among tasks in their order, and how many of them it looked at. */
interface Found<T> {
  readonly items: readonly T[]
  readonly searched: number
}

/** Looks for up to `limit` tasks whose payload contains a part. */
function* found<T extends { readonly id: string }>(
  tx: Tx,
  tasks: readonly T[],
  part: string,
  limit: number,
): Steps<Found<T>> {
  const items: T[] = []
  for (let start = 0; start < tasks.length; start += CHUNK) {
    const chunk = tasks.slice(start, start + CHUNK)
    const matching = new Set(
      yield* tx.reads.containing(
        chunk.map(({ id }) => id),
        part,
      ),
    )
    for (const [index, task] of chunk.entries()) {
      if (matching.has(task.id)) items.push(task)
      if (items.length === limit) return { items, searched: start + index + 1 }
    }
  }
  return { items, searched: tasks.length }
}

/** A page of the tasks that match, newest change first. */
export function* listContaining(
  tx: Tx,
  filter: ColumnFilter,
  part: string,
  { limit, after }: PageRequest,
): Steps<Page<TaskRecord>> {
  const places = yield* tx.reads.places(filter, { limit: MAX_SEARCHED + 1, after })
  const { items, searched } = yield* found(tx, places.slice(0, MAX_SEARCHED), part, limit)
  const tasks = yield* tx.reads.several(items.map(({ id }) => id))
  // One of them may have changed since its place was read.
  const kept = tasks.filter(({ status }) => filter.status === undefined || status === filter.status)
  return { items: kept, searched, ...nextAfter(places, searched) }
}

function nextAfter(places: readonly TaskPlace[], searched: number): { readonly next?: string } {
  const last = places[searched - 1]
  return last === undefined || searched === places.length ? {} : { next: cursorAt(last) }
}

/** Counts the tasks that match, by these fields. Each page is a transaction of its own, and other work has its turn between them. */
export async function countContaining(
  store: Transactions,
  filter: ColumnFilter,
  part: string,
  fields: readonly CountField[],
): Promise<TaskCount[]> {
  const counts: TaskCount[] = []
  let after: string | undefined
  do {
    const page = await store.read(tx => countPage(tx, filter, part, fields, after))
    counts.push(...page.counts)
    after = page.next
    await nextTurn()
  } while (after !== undefined)
  return addUp(counts, fields)
}

function* countPage(
  tx: Tx,
  filter: ColumnFilter,
  part: string,
  fields: readonly CountField[],
  after: string | undefined,
): Steps<{ readonly counts: readonly TaskCount[]; readonly next?: string }> {
  const places = yield* tx.reads.places(filter, { limit: MAX_SEARCHED + 1, after })
  const { items, searched } = yield* found(tx, places.slice(0, MAX_SEARCHED), part, Infinity)
  const next = nextAfter(places, searched)
  const given: Partial<Record<CountField, string>> = filter
  // The filter has all that they are counted by.
  if (items.length > 0 && fields.every(field => given[field] !== undefined))
    return { counts: [{ ...filter, count: items.length }], ...next }
  const counts: TaskCount[] = []
  for (let start = 0; start < items.length; start += CHUNK) {
    const ids = items.slice(start, start + CHUNK).map(({ id }) => id)
    for (const task of yield* tx.reads.several(ids)) counts.push({ ...task, count: 1 })
  }
  return { counts: addUp(counts, fields), ...next }
}

/**
 * A page of the tasks that have not ended, in the order of their ids, which an act leaves as it is. It may be empty, and not the
 * last: one search looks at a bounded number of tasks, ended ones too.
 */
export function* livingMembers(
  tx: Tx,
  scope: MemberScope,
  { limit, after }: PageRequest,
): Steps<Page<OperationMember>> {
  const { members, next } = yield* tx.operations.living(scope, after ?? '', MAX_SEARCHED)
  const items = members.slice(0, limit)
  const last = members.length > limit ? items.at(-1)?.id : next
  return last === undefined ? { items } : { items, next: last }
}

/** A page of the members of an operation that have not been moved. It may be empty, and not the last. */
export function* membersContaining(
  tx: Tx,
  act: OperationAct,
  scope: MemberScope,
  part: string,
  { limit, after }: PageRequest,
): Steps<Page<OperationMember>> {
  // Tasks that have not ended change places, so they are walked through in the order of their ids.
  if (isOnLiving(act)) {
    const page = yield* tx.operations.living(scope, after ?? '', MAX_SEARCHED)
    const { items, searched } = yield* found(tx, page.members, part, limit)
    const next = searched < page.members.length ? page.members[searched - 1]?.id : page.next
    return next === undefined ? { items } : { items, next }
  }
  const read = yield* tx.operations.members(
    act,
    scope,
    after === undefined ? OLDEST : taskPlace(after),
    MAX_SEARCHED + 1,
  )
  const { items, searched } = yield* found(tx, read.slice(0, MAX_SEARCHED), part, limit)
  return { ...pageByTime(read, searched, ({ changedAt }) => changedAt), items }
}

/** Counts the members of a set, page by page as `countContaining` does, by rows that may agree. */
export async function surveyContaining(
  store: Transactions,
  act: OperationAct,
  scope: MemberScope,
  part: string,
): Promise<SurveyRow[]> {
  const rows: SurveyRow[] = []
  let after: string | undefined
  do {
    const page = await store.read(function* (tx) {
      const { items, next } = yield* membersContaining(tx, act, scope, part, { limit: CHUNK, after })
      return {
        rows: yield* surveyNamed(
          tx,
          act,
          items.map(({ id }) => id),
        ),
        next,
      }
    })
    rows.push(...page.rows)
    after = page.next
    await nextTurn()
  } while (after !== undefined)
  return rows
}

/** Counts those of these tasks that an act could move now. */
export function* surveyNamed(tx: Tx, act: OperationAct, ids: readonly string[]): Steps<SurveyRow[]> {
  const now = yield* tx.clock.now()
  const named = yield* tx.operations.namedMembers(act, ids, now)
  const dead = act === 'redrive' ? named.map(({ id }) => id) : []
  const twins = yield* tx.unique.twins(dead, now)
  const rows = named.map(({ id, kind, category, errorCode, isOrdered, isPaused, standing, changedAt }) => {
    const facts = { isOrdered, isPaused, standing, hasTwin: twins.has(id), age: ageOf(changedAt, now) }
    return { kind, category, errorCode, ...facts, count: 1 }
  })
  return surveyed(rows)
}
