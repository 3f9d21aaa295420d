import type { Store, TaskFilter } from '../store/index.js'
import { type CountField, contractOf, type TaskCount } from '../store/internal.js'

/** A number of tasks that agree in some fields, as plain JSON: `null` where a field has no value. */
export type TaskCountView = Partial<Record<CountField, string | null>> & { readonly count: number }

/**
 * Counts the tasks that match, by one or several fields: the largest numbers first.
 *
 * ```ts
 * await countTasks(store, { status: 'dead' }, ['kind', 'errorCode']) // [{ kind: 'charge', errorCode: 'http_502', count: 3 }]
 * ```
 */
export async function countTasks(
  store: Store,
  filter: TaskFilter,
  by: readonly CountField[],
): Promise<TaskCountView[]> {
  const counts = await contractOf(store).countBy(filter, by)
  return counts.map(count => viewOf(count, by)).sort((a, b) => b.count - a.count || compared(a, b, by))
}

function viewOf(counted: TaskCount, by: readonly CountField[]): TaskCountView {
  return { ...Object.fromEntries(by.map(field => [field, counted[field] ?? null])), count: counted.count }
}

function compared(a: TaskCountView, b: TaskCountView, by: readonly CountField[]): number {
  const name = (view: TaskCountView) => JSON.stringify(by.map(field => view[field] ?? ''))
  return name(a) < name(b) ? -1 : 1
}
