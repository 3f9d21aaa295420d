import type { Retention } from '../contract/store.js'
import type { TaskRecord } from '../contract/task.js'
import { ENDED_STATUSES, keptMs, surplus } from '../rules/retention.js'
import type { MemoryTask } from './task.js'
import type { MemoryTasks } from './tasks.js'

/**
 * The tasks to delete: those whose time is over, then the oldest of those that are too many. The caller may delete each as it
 * comes. If it does not, some come twice.
 */
export function* prunable(store: MemoryTasks, keep: Retention, now: number): Generator<MemoryTask> {
  const mayGo = (task: MemoryTask) => !task.lane.isBlocking(task) && !store.isInBatch(task.record)
  for (const task of store.tasks.values())
    if (!task.lane.hasItems && isOver(task.record, keep, now) && mayGo(task)) yield task
  for (const status of keep.counts === undefined ? [] : ENDED_STATUSES) {
    const ended = [...store.tasks.values()].filter(({ record, lane }) => record.status === status && !lane.hasItems)
    ended.sort((a, b) => a.record.changedAt - b.record.changedAt)
    yield* ended.filter(mayGo).slice(0, surplus(keep, status, ended.length))
  }
}

/** Whether a task has been ended for longer than its retention. */
function isOver({ status, changedAt }: TaskRecord, keep: Retention, now: number): boolean {
  if (status === 'waiting' || status === 'running') return false
  const ms = keptMs(keep, status)
  return ms !== undefined && changedAt <= now - ms
}
