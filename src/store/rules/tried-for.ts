import type { NewTask } from '../contract/task.js'

/** How long a first attempt elsewhere took; 0 without one. The task's time counts from the start of that attempt. */
export function triedForMs({ tried }: Pick<NewTask, 'tried'>): number {
  if (tried === undefined) return 0
  return Math.max(0, Math.round(tried.attempt.endedAt - tried.attempt.startedAt))
}
