import type { Page, PageRequest, TaskFilter, TaskReader } from '../store/index.js'
import { type TaskView, taskView } from './task-view.js'

/** A page of the tasks that match, newest change first. */
export async function listTasks(
  store: Pick<TaskReader, 'list'>,
  filter: TaskFilter,
  page: PageRequest,
): Promise<Page<TaskView>> {
  const { items, next } = await store.list(filter, page)
  return { items: items.map(taskView), next }
}
