import type { By, TaskControl, TaskReader } from '../store/index.js'
import { alreadyEnded, notFound, type Refusal } from './refusal.js'

/** The result of a cancellation. */
export interface Cancelled {
  /** The tasks that were cancelled, or will be once their handler has ended. */
  readonly ids: readonly string[]
  /** Tasks that were left as they were, and why. */
  readonly refused: readonly Refusal[]
}

/** Cancels waiting tasks, and asks running ones to end. */
export async function cancelTasks(
  store: Pick<TaskControl & TaskReader, 'cancel' | 'get'>,
  ids: readonly string[],
  by: By,
): Promise<Cancelled> {
  const named = new Set(ids)
  const cancelled = new Set(await store.cancel([...named], by))
  const refused: Refusal[] = []
  for (const id of named) {
    if (cancelled.has(id)) continue
    const task = await store.get(id)
    refused.push(task === undefined ? notFound(id) : alreadyEnded(id, task.status))
  }
  return { ids: [...cancelled], refused }
}
