import type { By, Store } from '../store/index.js'
import { checkIds, contractOf } from '../store/internal.js'
import { getTasks } from './get-tasks.js'
import { alreadyEnded, alreadyRequested, notFound, type Refusal } from './refusal.js'

/** The result of a cancellation. */
export interface Cancelled {
  /** The tasks that were cancelled, or will be once their handler has ended. */
  readonly ids: readonly string[]
  /** Tasks that were left as they were, and why. */
  readonly refused: readonly Refusal[]
}

/** Cancels waiting tasks, and asks running ones to end. */
export async function cancelTasks(store: Store, ids: readonly string[], by: By): Promise<Cancelled> {
  const contract = contractOf(store)
  checkIds(ids)
  const named = new Set(ids)
  const cancelled = new Set(await contract.cancel([...named], by))
  const refused: Refusal[] = []
  const others = [...named].filter(id => !cancelled.has(id))
  for await (const { id, task } of getTasks(contract, others)) {
    if (task?.status === 'running') refused.push(alreadyRequested(id))
    else refused.push(task === undefined ? notFound(id) : alreadyEnded(id, task.status))
  }
  return { ids: [...cancelled], refused }
}
