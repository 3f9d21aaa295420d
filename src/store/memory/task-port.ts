import type { Item, TaskPort } from '../port/task-port.js'
import type { MemoryTasks } from './tasks.js'

/** The primitives of tasks in memory. */
export function memoryTaskPort(tasks: MemoryTasks): TaskPort {
  return {
    now: () => tasks.now(),
    appendAudit: record => tasks.audit.add(record),
    enqueue: (added, now) => added.map(task => tasks.add(task, now).isNew),
    redrive: (ids, by, now, part) => tasks.redriveAll(ids, by, now, part),
    discard: (ids, by, now, part) => tasks.discardAll(ids, { why: '', ...by }, now, part),
    cancel: (ids, by, now) => tasks.cancelAll(ids, by, now),
    itemsOf: ids =>
      new Map(
        ids.flatMap((id): [string, Item][] => {
          const task = tasks.task(id)
          if (task?.lane.hasItems !== true) return []
          const { key: run, category: stage, changedAt } = task.record
          return [[id, { id, run, stage, changedAt }]]
        }),
      ),
  }
}
