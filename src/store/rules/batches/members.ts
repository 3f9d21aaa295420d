import type { NewTask } from '../../contract/task.js'

/** Begins the id of every member. */
const PREFIX = 'batch:'

/** The digits of a position, as many as items of runs have: ids are ordered as text. */
const DIGITS = 12

/** The batch of a task, which its id tells; `undefined` if it is in none. */
export function batchOf(id: string): string | undefined {
  if (!id.startsWith(PREFIX)) return undefined
  const end = id.indexOf(':', PREFIX.length)
  return end < 0 ? undefined : id.slice(PREFIX.length, end)
}

/** The batches of tasks, in their order, so that nobody who locks them deadlocks. */
export function batchesOf(ids: readonly string[]): readonly string[] {
  return [...new Set(ids.flatMap(id => batchOf(id) ?? []))].sort()
}

/** The ids of a batch's members, as a range: from the first up to the second. Names have no colon, and a semicolon comes after it. */
export function memberRange(batch: string): readonly [string, string] {
  return [`${PREFIX}${batch}:`, `${PREFIX}${batch};`]
}

/** The members of a chunk as tasks. */
export function memberTasks(
  batch: string,
  position: number,
  tasks: readonly Omit<NewTask, 'id'>[],
): (NewTask & { readonly id: string })[] {
  const id = (index: number) => `${PREFIX}${batch}:${String(position + index).padStart(DIGITS, '0')}`
  return tasks.map((task, index) => ({ ...task, id: id(index) }))
}

/** The id of a member that another one adds, as its `n`-th: right behind its own, so that a repeated attempt gives it again. */
export function addedId(member: string, n: number): string {
  return `${member}.${String(n).padStart(6, '0')}`
}

/** The id of the task that follows the `n`-th end of a batch. It is no member. */
export function endId(batch: string, n: number): string {
  return `batch-end:${batch}:${n}`
}
