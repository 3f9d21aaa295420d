import type { Retention } from '../contract/store.js'
import type { TaskRecord } from '../contract/task.js'

/** Whether a task has been ended for longer than its retention. */
export function isOver({ status, changedAt }: TaskRecord, { endedMs, deadMs }: Retention, now: number): boolean {
  if (status === 'waiting' || status === 'running') return false
  const keepMs = status === 'dead' ? deadMs : endedMs
  return keepMs !== undefined && changedAt <= now - keepMs
}
