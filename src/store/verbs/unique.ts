import type { By } from '../contract/ledger.js'
import type { Page, PageRequest, TaskFilter } from '../contract/list.js'
import type { OperationMember, TwinRule } from '../contract/operation-store.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { TaskStanding } from '../contract/task-standing.js'
import type { Steps, Tx } from '../port/steps.js'
import { comparePlaces, taskPage, taskPlace } from '../rules/cursor.js'
import { objectText } from '../rules/json-object.js'
import type { PartOfOperation } from '../rules/operations/operation-rules.js'
import { noTasks } from '../rules/task-state.js'

/**
 * Redrives dead tasks, each with its unique key, if it had one until its end. One whose twin lives stays, or replaces that, or
 * waits for its end. Returns the ids that it moved.
 */
export function* redriveUnique(
  tx: Tx,
  ids: readonly string[],
  by: By,
  now: number,
  { part, twin = part?.twin ?? 'skip' }: { readonly part?: PartOfOperation | undefined; readonly twin?: TwinRule },
): Steps<string[]> {
  const retaken = yield* tx.unique.retake(ids, twin, now, part)
  if (retaken.length === 0) return yield* tx.tasks.redrive(ids, by, now, part)
  const idsOf = (...outcomes: readonly string[]) =>
    retaken.filter(({ outcome }) => outcomes.includes(outcome)).map(({ id }) => id)
  const refused = new Set(idsOf('refused'))
  const moved = yield* tx.tasks.redrive(
    ids.filter(id => !refused.has(id)),
    by,
    now,
    part,
  )
  const isMoved = new Set(moved)
  yield* tx.unique.queue(idsOf('queued').filter(id => isMoved.has(id)))
  yield* tx.unique.release(
    idsOf('taken', 'queued').filter(id => !isMoved.has(id)),
    now,
  )
  return moved
}

/** A page of dead members, each with the task that has its unique key by now. */
export function* withTwins(tx: Tx, page: Page<OperationMember>): Steps<Page<OperationMember>> {
  const now = yield* tx.clock.now()
  const twins = yield* tx.unique.twins(
    page.items.map(({ id }) => id),
    now,
  )
  return twins.size === 0 ? page : { ...page, items: page.items.map(item => ({ ...item, twin: twins.get(item.id) })) }
}

/** Where a task stands, with the task that has its unique key, if that is another one. */
export function* standingWithTwin(tx: Tx, id: string, limit: number): Steps<TaskStanding | undefined> {
  const standing = yield* tx.reads.standing(id, limit)
  if (standing?.task.unique === undefined) return standing
  const { kind, unique } = standing.task
  const twin = yield* tx.unique.holder(kind, unique.key, standing.now)
  return twin === undefined || twin === id ? standing : { ...standing, twin }
}

/** A page of the tasks that were enqueued with a unique key, newest change first. They are few, so all are read. */
export function* listKeyed(tx: Tx, filter: TaskFilter, { limit, after }: PageRequest): Steps<Page<TaskRecord>> {
  const place = after === undefined ? undefined : taskPlace(after)
  const tasks = yield* keyed(tx, filter)
  const rest = tasks.filter(task => place === undefined || comparePlaces(task, place) < 0)
  return taskPage(
    rest.sort((a, b) => comparePlaces(b, a)),
    limit,
  )
}

/** The number of tasks that were enqueued with a unique key, by status. */
export function* countKeyed(tx: Tx, filter: TaskFilter): Steps<Record<TaskStatus, number>> {
  const counts = noTasks()
  for (const { status } of yield* keyed(tx, filter)) counts[status]++
  return counts
}

function* keyed(tx: Tx, { unique = '', where, ...fields }: TaskFilter): Steps<TaskRecord[]> {
  const tasks = yield* tx.reads.several(yield* tx.unique.named(unique))
  const wanted = Object.entries(fields).filter(([, value]) => value !== undefined)
  const found = tasks.filter(task => wanted.every(([field, value]) => task[field as keyof TaskRecord] === value))
  if (where === undefined) return found
  const ids = found.map(({ id }) => id)
  const containing = new Set(yield* tx.reads.containing(ids, objectText(where)))
  return found.filter(({ id }) => containing.has(id))
}
