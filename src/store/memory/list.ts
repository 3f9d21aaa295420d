import { type TaskPlace, taskPage, taskPlace } from '../cursor.js'
import type { Page, PageRequest, TaskFilter, TaskRecord, TaskStatus } from '../store.js'
import { noTasks } from '../task-state.js'
import { matches } from './lane-rules.js'

/** A page of the tasks that match a filter: newest change first, then the higher id. */
export function listTasks(
  records: Iterable<TaskRecord>,
  filter: TaskFilter,
  { limit, after }: PageRequest,
): Page<TaskRecord> {
  const from = after === undefined ? undefined : taskPlace(after)
  const found: TaskRecord[] = []
  for (const record of records) {
    if (isMeant(filter, record) && (from === undefined || isNewer(from, record))) found.push(record)
  }
  found.sort((a, b) => (isNewer(a, b) ? -1 : 1))
  return taskPage(found, limit)
}

/** Counts the tasks that match a filter, by status. */
export function countTasks(records: Iterable<TaskRecord>, filter: TaskFilter): Record<TaskStatus, number> {
  const counts = noTasks()
  for (const record of records) {
    if (isMeant(filter, record)) counts[record.status]++
  }
  return counts
}

function isMeant(filter: TaskFilter, record: TaskRecord): boolean {
  return (
    matches(filter, record) &&
    (filter.status === undefined || filter.status === record.status) &&
    (filter.errorCode === undefined || filter.errorCode === record.errorCode)
  )
}

function isNewer(a: TaskPlace, b: TaskPlace): boolean {
  return a.changedAt === b.changedAt ? a.id > b.id : a.changedAt > b.changedAt
}
