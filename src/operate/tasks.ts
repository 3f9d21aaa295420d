import type { Page, PageRequest, Store, TaskFilter } from '../store/index.js'
import { contractOf } from '../store/internal.js'
import { pagesOf } from './pages.js'
import { type TaskView, taskView } from './task-view.js'

/** A page of the tasks that match, newest change first: 50 of them, unless `limit` says otherwise. */
export async function listTasks(
  store: Store,
  filter: TaskFilter = {},
  page: Partial<PageRequest> = {},
): Promise<Page<TaskView>> {
  const { items, ...rest } = await contractOf(store).list(filter, { ...page, limit: page.limit ?? 50 })
  return { items: items.map(taskView), ...rest }
}

/**
 * Walks through all tasks that match, newest change first, page by page. A task that changes meanwhile may be passed over.
 *
 * ```ts
 * for await (const letters of walkTasks(store, { status: 'dead' })) file.write(JSON.stringify(letters))
 * ```
 */
export async function* walkTasks(store: Store, filter: TaskFilter = {}): AsyncGenerator<readonly TaskView[]> {
  const contract = contractOf(store)
  for await (const tasks of pagesOf(page => contract.list(filter, page))) yield tasks.map(taskView)
}
