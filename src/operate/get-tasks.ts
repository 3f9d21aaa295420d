import type { TaskRecord } from '../store/index.js'
import type { TaskReader } from '../store/internal.js'

/** How many tasks are read at once. */
const AT_ONCE = 50

/** Tasks by their ids, in the order given, each id once; `undefined` in the place of a task that does not exist. */
export async function* getTasks(
  store: Pick<TaskReader, 'get'>,
  ids: Iterable<string>,
): AsyncGenerator<{ readonly id: string; readonly task: TaskRecord | undefined }> {
  const left = [...new Set(ids)]
  while (left.length > 0) {
    const batch = left.splice(0, AT_ONCE)
    yield* await Promise.all(batch.map(async id => ({ id, task: await store.get(id) })))
  }
}
