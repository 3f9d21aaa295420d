import type { CountField, Page, PageRequest, TaskCount } from '../contract/list.js'
import type { TaskRecord, TaskStatus } from '../contract/task.js'
import type { ColumnFilter } from '../port/read-port.js'
import { addUp } from '../rules/count-by.js'
import { compareTexts, type TaskPlace, taskPage, taskPlace } from '../rules/cursor.js'
import { noTasks } from '../rules/task-state.js'
import { matches } from './lane-rules.js'

/** A page of the tasks that match a filter: newest change first, then the higher id. */
export function listTasks(
  records: Iterable<TaskRecord>,
  filter: ColumnFilter,
  { limit, after }: PageRequest,
): Page<TaskRecord> {
  return taskPage(foundBehind(records, filter, after), limit)
}

/** The tasks that match, from a place on: newest change first, then the higher id. */
export function foundBehind(
  records: Iterable<TaskRecord>,
  filter: ColumnFilter,
  after: string | undefined,
): TaskRecord[] {
  const from = after === undefined ? undefined : taskPlace(after)
  const found: TaskRecord[] = []
  for (const record of records) {
    if (isMeant(filter, record) && (from === undefined || isNewer(from, record))) found.push(record)
  }
  return found.sort((a, b) => (isNewer(a, b) ? -1 : 1))
}

/** Counts the tasks that match a filter, by status. */
export function countTasks(records: Iterable<TaskRecord>, filter: ColumnFilter): Record<TaskStatus, number> {
  const counts = noTasks()
  for (const record of records) {
    if (isMeant(filter, record)) counts[record.status]++
  }
  return counts
}

/** Counts the tasks that match a filter and agree in these fields. */
export function countTasksBy(
  records: Iterable<TaskRecord>,
  filter: ColumnFilter,
  fields: readonly CountField[],
): TaskCount[] {
  const found = [...records].filter(record => isMeant(filter, record))
  return addUp(
    found.map(({ kind, category, key, status, errorCode, reason, group }) => {
      return { kind, category, key, status, errorCode, reason, group, count: 1 }
    }),
    fields,
  )
}

/** Whether a task matches a filter. */
export function isMeant(filter: ColumnFilter, record: TaskRecord): boolean {
  return (
    matches(filter, record) &&
    (filter.status === undefined || filter.status === record.status) &&
    (filter.errorCode === undefined || filter.errorCode === record.errorCode) &&
    (filter.group === undefined || filter.group === record.group)
  )
}

function isNewer(a: TaskPlace, b: TaskPlace): boolean {
  return a.changedAt === b.changedAt ? compareTexts(a.id, b.id) > 0 : a.changedAt > b.changedAt
}
