import type { Page, PageRequest, TaskFilter, TaskReader } from '../store/index.js'
import { type TaskView, taskView } from './task-view.js'

/** A page of the tasks that match, newest change first: 50 of them, unless `limit` says otherwise. */
export async function listTasks(
  store: Pick<TaskReader, 'list'>,
  filter: TaskFilter = {},
  page: Partial<PageRequest> = {},
): Promise<Page<TaskView>> {
  const { items, next } = await store.list(filter, { ...page, limit: page.limit ?? 50 })
  return { items: items.map(taskView), next }
}
